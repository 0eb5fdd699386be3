// SPDX-License-Identifier: Apache-2.0
// What the registration does on surfaces, written again from the papers in double, without a
// formula of gpu/register/kernels: generalised ICP with covariances in full (Segal, Haehnel, Thrun
// 2009), planes by Jacobi's rotations, point feature histograms (Rusu, Blodow, Beetz 2009).
#ifndef POSED_TESTS_CHECK_REGISTER_SURFACE_REFERENCE_H
#define POSED_TESTS_CHECK_REGISTER_SURFACE_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

// Adds to the 6x6 h and the 6-vector g those of (y - q)^T (C_q + C_y)^-1 (y - q) for y moved by a
// left twist (v, w); C = U diag(1, 1, epsilon) U^T with the normal as U's last column, I where the
// normal is 0. The derivative is taken by differences of the moved point.
void surface_reference_gicp(const double y[3], const double normal_y[3], const double q[3],
                            const double normal_q[3], double epsilon, double h[36], double g[6]);

// Direction in which n points spread least, and the variance along it.
void surface_reference_plane(const double (*points)[3], size_t n, double out_normal[3],
                             double *out_variance);

// The three angles of a pair as the paper's equations have them, each as a position 0..1 in its
// range; the neighbour's normal is first turned to the point's side. False: not defined.
bool surface_reference_angles(const double p[3], const double n[3], const double q[3],
                              const double m[3], double out[3]);

#endif
