// SPDX-License-Identifier: Apache-2.0
// Eigenvalues of small symmetric matrices by cyclic Jacobi rotations (Golub, Van Loan, Matrix
// Computations, 8.5): slower than a library for large n, exact to the last digits and free of
// allocation for the 3x3, 4x4 and 6x6 matrices of registration.
#ifndef POSED_PROTO_EIGEN_H
#define POSED_PROTO_EIGEN_H

#define EIGEN_MAX_N 6

// a: n x n symmetric, row-major, n <= EIGEN_MAX_N. Eigenvalues ascend; row i of out_vectors is the
// unit eigenvector of value i.
void eigen_symmetric(const double *a, int n, double *out_values, double *out_vectors);

#endif
