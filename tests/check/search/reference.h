// SPDX-License-Identifier: Apache-2.0
// The pose search from the papers' formulas and the headers' words, in double precision and without
// fixed point: what the twins' formulas and operations are held against. Includes none of them.
//
// Maps, edges, error and simplex: Germann et al. 2007, section 3 to 5, eq. 1-5; the simplex is
// Nelder and Mead 1965. The sensor's noise: Nguyen, Izadi, Lovell 2012.
#ifndef POSED_TESTS_CHECK_SEARCH_REFERENCE_H
#define POSED_TESTS_CHECK_SEARCH_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct reference_camera {
    double fx, fy, cx, cy;
    int width, height;
};

double reference_sigma(double z_m);
void reference_turn(const double r[9], const double p[3], double out[3]);
void reference_turn_back(const double r[9], const double p[3], double out[3]);
void reference_product(const double a[9], const double b[9], double out[9]);
void reference_cross(const double a[3], const double b[3], double out[3]);
double reference_dot(const double a[3], const double b[3]);
void reference_widen(const float *from, int n, double *out);
void reference_narrow(const double *from, int n, float *out);

// Rotation about a unit axis (Rodrigues).
void reference_about(const double axis[3], double angle, double out[9]);

// About a random axis by up to 3.1, from the check's printed seed.
void reference_random_rotation(float out[9], double as_double[9]);

// The smallest rotation that takes the direction of `ray` to +z.
void reference_look_along(const double ray[3], double out[9]);

// Nearest pixel to where q falls, -1 outside of the image or less than 5 cm in front of the camera.
// *margin (may be NULL): how far from another answer, in pixels or in metres of depth.
int reference_pixel(const struct reference_camera *c, const double q[3], double *margin);

// What the image z_m shows at the frame's cell (x, y), as a depth from the start point: three
// rounds of projecting the guess. 0: no measurement, 1, or 2: a negative depth in the image.
int reference_sample(const float *z_m, const struct reference_camera *c, const double r[9],
                     const double start[3], double x_m, double y_m, double *out_z, double *margin);

// A map of `size` x size pixels: z in pixels, kind 0 background, 1 foreground, 2 edge.
// Kinds: an edge lies 4 % of the map's width (2.56 px) or more in front of a direct neighbour.
void reference_kinds(const double *z_px, const bool *foreground, int size, int *out_kind);

// Signed distance to the nearest edge in pixels, at most 8; negative: background.
void reference_edt(const int *kind, int size, double *out_px);

// Germann eq. 1-5 of a map of 64 x 64 over a window of 128 x 128 with its corner at (u, v) and its
// depth moved by z: cover + lambda range; negative: not one pixel of depth in common.
double reference_error(const double *window_z, const double *window_edt, const double *map_z,
                       const double *map_edt, int u, int v, double z);

// Minimises f over (x, y, z) by the downhill simplex from corners `step` apart, so many iterations.
// Writes place and value of the best vertex.
void reference_simplex(double (*f)(void *context, const double at[3]), void *context,
                       const double start[3], double step, int n_iterations, double out[4]);

// Draws triangles (corners in pixels, x right, y down, z forward) orthographically: the nearest z
// of each pixel's centre, INFINITY none. *out_index the triangle.
void reference_draw(const double *corners, const uint32_t *triangles, uint32_t n_triangles,
                    int width, int height, double *out_z, int *out_index);

// The mean of a 4 x 4 cell's foreground where half of it is, the ring around, score of a
// hypothesis (gpu/search/kernels/coarse.h's head): cells that match + 8, seen through - 6, the ring
// going on - 8; over those seen and a third of the hidden and eight.
int reference_coarse_score(const int *scene, const int *model, const int *ring, int n, int anchor_z,
                           int n_cells);

// Normal of pixel (u, v) from neighbours 3 px away, towards the camera; false: none.
bool reference_normal(const float *z_m, const struct reference_camera *c, int u, int v,
                      double out[3], double *margin);

// The depth behind a pixel without measurement: the farther of the two measured beside it in the
// row, 64 px away at most; 0: not on both sides.
double reference_behind(const float *z_m, int width, int u, int v);

// Least squares plane d = a u + b v + c of n points; false: they lie on a line.
bool reference_fit(const double *u, const double *v, const double *d, int n, double out[3]);

// Solves a x = b of 6 unknowns by Gauss with pivots.
void reference_solve6(double a[6][6], const double b[6], double x[6]);

#endif
