// SPDX-License-Identifier: Apache-2.0
// What a block of the registration's anneal does from pass to pass: the E-step in one or several
// passes, the exchange of the sums, the M-step; how it leaves at the end of a launch and goes on in
// the next. Blocks, teams and tags: block.cuh.
#ifndef POSED_GPU_REGISTER_CUDA_STEPS_CUH
#define POSED_GPU_REGISTER_CUDA_STEPS_CUH

#include "gpu/register/cuda/pass.cuh"
#include "gpu/register/cuda/tensor.cuh"

// Not inlined, as take_state below: the same bits wherever a block takes the run up again.
static __device__ __noinline__ struct level level_at(const struct register_anneal *anneal,
                                                     double sigma2)
{
    struct level level = {sigma2, 0, 0, (float)(0.72134752044448170 / sigma2)};
    if (anneal->weighting == REGISTER_WEIGHTING_PAPER) {
        level.outlier = exp(-anneal->outlier_d2 / sigma2);
        return level;
    }
    level.slack = anneal->slack * exp(-anneal->slack_alpha / (2 * sigma2));
    if (anneal->slack_spacing > 0)
        level.slack = register_slack(level.slack, sigma2, anneal->slack_spacing);
    return level;
}

// Thread 0: what the next iteration needs of pose and sigma.
static __device__ __noinline__ void take_state(const struct register_anneal *anneal)
{
    const struct se3 T = shared_state.run.T, T_inverse = se3_inverse(&T);
    for (int i = 0; i < 3; i++) {
        shared_state.T[REGISTER_SOURCE][i] = make_float4((float)T.r[3 * i], (float)T.r[3 * i + 1],
                                                         (float)T.r[3 * i + 2], (float)T.t_m[i]);
        shared_state.T[REGISTER_TARGET][i] =
            make_float4((float)T_inverse.r[3 * i], (float)T_inverse.r[3 * i + 1],
                        (float)T_inverse.r[3 * i + 2], (float)T_inverse.t_m[i]);
    }
    const double sigma2 = shared_state.schedule.sigma2;
    if (sigma2 != shared_state.level.sigma2)
        shared_state.level =
            sigma2 == shared_state.next.sigma2 ? shared_state.next : level_at(anneal, sigma2);
}

// Mean of the target points, by every block for itself.
static __device__ void find_mean(const struct plan *plan)
{
    const int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    double mine[3] = {0, 0, 0};
    for (uint32_t j = threadIdx.x; j < plan->anneal.n_target; j += blockDim.x) {
        const float4 p = plan->points[REGISTER_TARGET][j];
        mine[0] += p.x;
        mine[1] += p.y;
        mine[2] += p.z;
    }
    for (int a = 0; a < 3; a++) {
        for (int d = 16; d > 0; d >>= 1)
            mine[a] += __shfl_xor_sync(0xffffffffu, mine[a], d);
        if (lane == 0)
            shared_state.rows[a][warp] = mine[a];
    }
    __syncthreads();
    if (threadIdx.x < 3) {
        double sum = 0;
        for (uint32_t w = 0; w < blockDim.x / 32; w++)
            sum += shared_state.rows[threadIdx.x][w];
        shared_state.mean[threadIdx.x] = sum / plan->anneal.n_target;
    }
}

static __device__ __forceinline__ float *chunk_sums(const struct plan *plan)
{
    return (float *)((char *)dynamic_memory + plan->rows_at);
}

// The sums of a chunk between two launches.
static __device__ __forceinline__ float *kept_sums(const struct plan *plan)
{
    return plan->rows + (size_t)blockIdx.x * plan->chunk_floats;
}

static __device__ void begin_block(const struct plan *plan, struct block *b)
{
    b->run = blockIdx.x / plan->team;
    b->index = blockIdx.x % plan->team;
    b->began = clock64();
    b->staged[0] = b->staged[1] = b->prepared = false;
    for (int side = 0; side < 2; side++) {
        b->first[side] = first_row(plan, b->index, side);
        b->n[side] = first_row(plan, b->index + 1, side) - b->first[side];
        for (uint32_t i = threadIdx.x; b->n[side] <= OWN_ROWS && i < b->n[side]; i += blockDim.x)
            shared_state.own_rows[side][i] = plan->points[side][b->first[side] + i];
    }
    if (plan->begins) {
        memset(&b->at, 0, sizeof b->at);
        if (threadIdx.x == 0) {
            shared_state.run = plan->starts[b->run];
            shared_state.schedule = register_schedule_begin(&plan->anneal, &shared_state.run);
        }
        if (plan->anneal.weighting == REGISTER_WEIGHTING_PAPER)
            find_mean(plan);
    } else {
        const struct progress *progress = &plan->progress[blockIdx.x];
        b->at = progress->at;
        if (threadIdx.x == 0) {
            shared_state.run = progress->run;
            shared_state.schedule = progress->schedule;
        }
        for (int s = (int)threadIdx.x; s < REGISTER_N_SUMS; s += (int)blockDim.x)
            shared_state.partial[s] = progress->partial[s];
        if (threadIdx.x < 3)
            shared_state.mean[threadIdx.x] = progress->mean[threadIdx.x];
        for (uint32_t i = threadIdx.x; b->at.tile > 0 && i < plan->chunk_floats; i += blockDim.x)
            chunk_sums(plan)[i] = kept_sums(plan)[i];
    }
    if (threadIdx.x == 0) {
        shared_state.level.sigma2 = shared_state.next.sigma2 = shared_state.after.sigma2 = 0;
        take_state(&plan->anneal);
        shared_state.next =
            level_at(&plan->anneal, shared_state.level.sigma2 * plan->anneal.factor);
    }
    __syncthreads();
}

static __device__ void end_block(const struct plan *plan, const struct block *b)
{
    if (b->at.stage == STAGE_DONE && b->index == 0 && threadIdx.x == 0)
        plan->runs[b->run] = shared_state.run;
    if (b->at.stage != STAGE_DONE && threadIdx.x == 0)
        *plan->unfinished = 1;
    struct progress *progress = &plan->progress[blockIdx.x];
    if (threadIdx.x == 0) {
        progress->at = b->at;
        progress->run = shared_state.run;
        progress->schedule = shared_state.schedule;
    }
    for (int s = (int)threadIdx.x; s < REGISTER_N_SUMS; s += (int)blockDim.x)
        progress->partial[s] = shared_state.partial[s];
    if (threadIdx.x < 3)
        progress->mean[threadIdx.x] = shared_state.mean[threadIdx.x];
    for (uint32_t i = threadIdx.x; b->at.tile > 0 && i < plan->chunk_floats; i += blockDim.x)
        kept_sums(plan)[i] = chunk_sums(plan)[i];
}

// What one pass over all columns is for.
struct purpose {
    int side; // of the rows
    int what;
    bool weighted, last; // last: its rows make the M-step's sums
    bool tensor;
    float k;
};

static __device__ __forceinline__ struct purpose purpose_of(const struct plan *plan,
                                                            const struct block *b)
{
    const struct register_anneal *anneal = &plan->anneal;
    struct purpose p;
    p.tensor = plan->tensor;
    if (b->at.stage == STAGE_PRESENCE) {
        p.side = (int)b->at.pass;
        p.what = SUM_E;
        p.weighted = false;
        p.last = b->at.pass == 1;
        p.k = (float)(0.72134752044448170 / anneal->presence_sigma2);
        p.tensor = false; // once, and its sigma may be small
    } else if (anneal->weighting == REGISTER_WEIGHTING_PAPER) {
        p.side = REGISTER_SOURCE;
        p.what = SUM_SQUARES;
        p.weighted = false;
        p.last = true;
        p.k = shared_state.level.k;
    } else {
        // Sweeps: rows, then columns. A cold start leaves out the columns' weights once.
        p.side = (int)(b->at.pass & 1);
        p.last = b->at.pass + 1 == 2 * anneal->n_sweeps;
        p.what = p.last ? SUM_MOMENTS : SUM_E;
        p.weighted = b->at.pass > 0 || !(anneal->cold || b->at.iteration == 0);
        p.k = shared_state.level.k;
    }
    return p;
}

static __device__ __forceinline__ bool stage_columns(const struct plan *plan, struct block *b,
                                                     const struct purpose *p, const struct pass *in)
{
    const int columns = 1 - p->side;
    const bool whole = plan->n_tiles[columns] == 1;
    const bool coordinates = !b->staged[columns];
    if (!coordinates && b->at.chunk > 0) // the weights are those of the chunk before
        return true;
    const unsigned long long *weights = p->weighted ? weights_of(plan, b, columns) : NULL;
    const uint32_t tag = b->at.tag[columns];
    const bool there =
        p->tensor ? stage_tensor(in, plan, b, p->what != SUM_SQUARES, weights, tag, coordinates)
                  : stage_float(in, plan, b, weights, tag, coordinates);
    if (plan->tile_at[0] == plan->tile_at[1])
        b->staged[p->side] = false;
    b->staged[columns] = whole;
    return there;
}

static __device__ __forceinline__ void run_pass(bool tensor, int what, const struct pass *in)
{
    if (tensor) {
        if (what == SUM_E)
            tensor_pass<SUM_E>(*in);
        else if (what == SUM_MOMENTS)
            tensor_pass<SUM_MOMENTS>(*in);
        else
            tensor_pass<SUM_SQUARES>(*in);
    } else if (what == SUM_E) {
        float_pass<SUM_E>(*in);
    } else if (what == SUM_MOMENTS) {
        float_pass<SUM_MOMENTS>(*in);
    } else {
        float_pass<SUM_SQUARES>(*in);
    }
}

// What row i of the sums (threadIdx.x of the batch) brings: weight, x, y.
static __device__ __forceinline__ void put_row(double weight, const double x[3], const double y[3])
{
    const uint32_t at = threadIdx.x;
    double r2 = 0;
    shared_state.row_weights[at] = weight;
    shared_state.rows[FACTOR_ONE][at] = 1;
#pragma unroll
    for (int a = 0; a < 3; a++) {
        shared_state.rows[FACTOR_X + a][at] = x[a];
        shared_state.rows[FACTOR_Y + a][at] = y[a];
        r2 += (x[a] - y[a]) * (x[a] - y[a]);
    }
    shared_state.rows[FACTOR_R2][at] = r2;
}

static __device__ __forceinline__ void put_plane(const double x[3], const double y[3],
                                                 const float4 normal)
{
    const uint32_t at = threadIdx.x;
    const double n[3] = {normal.x, normal.y, normal.z};
#pragma unroll
    for (int a = 0; a < 3; a++) {
        const int c = (a + 1) % 3, d = (a + 2) % 3;
        shared_state.rows[FACTOR_J + a][at] = n[a];
        shared_state.rows[FACTOR_J + 3 + a][at] = y[c] * n[d] - y[d] * n[c];
    }
    shared_state.rows[FACTOR_PLANE][at] =
        n[0] * (y[0] - x[0]) + n[1] * (y[1] - x[1]) + n[2] * (y[2] - x[2]);
}

// The paper's EM-ICP: rows are source points; register_paper_row in the precision of its sums.
static __device__ __forceinline__ void put_paper_row(const struct pass *in, uint32_t i,
                                                     const float *sums)
{
    const float4 p = row_of(in, i);
    const double y[3] = {p.x, p.y, p.z};
    const float sum = sums[0], c = (float)shared_state.level.outlier + sums[4];
    const bool empty = !(c > (float)REGISTER_PAPER_MIN_C), alone = !(sum > 0);
    const float inverse = 1 / sum;
    double x[3];
#pragma unroll
    for (int a = 0; a < 3; a++)
        x[a] = empty || alone ? shared_state.mean[a] : (double)(sums[1 + a] * inverse);
    put_row(empty ? 1 : alone ? 0 : (double)(sum * rsqrtf(c)), x, y);
}

// The last pass of a Sinkhorn iteration: rows are target points, their sums in the source's frame.
static __device__ __forceinline__ void put_row_pair(const struct plan *plan, const struct pass *in,
                                                    uint32_t first, uint32_t i, const float *sums)
{
    const float4 p = in->rows[i];
    const bool none = !(sums[0] > 1e-37f);
    const float inverse = none ? 0 : 1 / sums[0];
    const double x[3] = {p.x, p.y, p.z};
    const double local[3] = {sums[1] * inverse, sums[2] * inverse, sums[3] * inverse};
    double y[3];
    se3_apply(&shared_state.run.T, local, y);
    put_row(none ? 0 : (double)(sums[0] / ((float)shared_state.level.slack + sums[0])), x, y);
    if (plan->anneal.planes)
        put_plane(x, y, plan->normals[first + i]);
}

// The chunk's rows have all their sums: weights are posted for the others, pairs go into the sums.
static __device__ __forceinline__ void finish_chunk(const struct plan *plan, struct block *b,
                                                    const struct purpose *p, const struct pass *in,
                                                    uint32_t first, bool last_chunk)
{
    const struct register_anneal *anneal = &plan->anneal;
    const bool measures = b->at.stage == STAGE_PRESENCE;
    const bool paper = anneal->weighting == REGISTER_WEIGHTING_PAPER;
    const float *rows = chunk_sums(plan);
    if (!measures && !paper) {
        const float slack = (float)shared_state.level.slack;
        unsigned long long *weights = weights_of(plan, b, p->side) + first;
        for (uint32_t i = threadIdx.x; i < in->n_rows; i += blockDim.x)
            store_word(&weights[i], weight_word(-__log2f(slack + rows[i * (uint32_t)p->what]),
                                                b->at.tag[p->side] + 1));
        b->at.tag[p->side] += last_chunk;
    }
    if (!p->last && !measures)
        return;
    const bool last_pass = p->last, first_pass = !measures || b->at.pass == 0;
    const int n_sums = measures ? 2 : anneal->planes ? REGISTER_N_SUMS : REGISTER_N_POINT_SUMS;
    uint32_t begin = 0;
    do {
        const uint32_t n = min(in->n_rows - begin, BATCH_ROWS), i = begin + threadIdx.x;
        if (threadIdx.x < n) {
            const float *sums = rows + i * (uint32_t)p->what;
            if (measures) {
                // Two sums: w and w x.
                const double zero[3] = {0, 0, 0}, x[3] = {(double)p->side, 0, 0};
                put_row(
                    register_presence(sums[0], anneal->presence_sigma2, anneal->presence_spacing),
                    x, zero);
            } else if (paper) {
                put_paper_row(in, i, sums);
            } else {
                put_row_pair(plan, in, first, i, sums);
            }
        }
        begin += n;
        add_rows(plan, b, n, n_sums, first_pass && b->at.chunk == 0 && begin == n,
                 last_pass && last_chunk && begin == in->n_rows);
    } while (begin < in->n_rows);
}

// The operands of the block's rows for the tensor cores, once for all passes of an iteration where
// they are few enough to be kept.
static __device__ __forceinline__ bool prepare_rows(const struct plan *plan, struct block *b,
                                                    const struct purpose *p)
{
    const uint32_t most = OPERAND_GROUPS * TENSOR_ROWS;
    if (!p->tensor || plan->anneal.weighting == REGISTER_WEIGHTING_PAPER ||
        plan->rows_each[0] > most || plan->rows_each[1] > most)
        return false; // the paper's iteration has one pass: a warp makes its own
    if (b->prepared)
        return true;
    for (uint32_t i = threadIdx.x; i < 2 * OPERAND_GROUPS * 32; i += blockDim.x) {
        const uint32_t side = i / (OPERAND_GROUPS * 32), group = i / 32 % OPERAND_GROUPS;
        const uint32_t lane = i & 31, row = group * TENSOR_ROWS + lane / 4;
        if (group * TENSOR_ROWS >= b->n[side])
            continue;
        struct pass in;
        uint32_t a[4];
        in.rows = own_rows(plan, b, (int)side);
        in.n_rows = b->n[side];
        in.side = (int)side;
        in.k = p->k;
        load_tensor_rows(&in, row, lane & 3, true, a);
        shared_state.operands[side][group][lane] = make_uint4(a[0], a[1], a[2], a[3]);
    }
    b->prepared = true;
    __syncthreads();
    return true;
}

// One tile of columns against one chunk of the block's rows. False: the block leaves.
static __device__ __forceinline__ bool advance(const struct plan *plan, struct block *b)
{
    const struct purpose p = purpose_of(plan, b);
    const int columns = 1 - p.side;
    const uint32_t n_rows = b->n[p.side];
    const uint32_t n_chunks = n_rows > CHUNK_ROWS ? (n_rows + CHUNK_ROWS - 1) / CHUNK_ROWS : 1;
    const uint32_t n_columns = set_size(plan, columns);
    const uint32_t skipped = b->at.chunk * CHUNK_ROWS;
    struct pass in;
    in.rows = own_rows(plan, b, p.side) + skipped;
    in.n_rows = min(n_rows - skipped, CHUNK_ROWS);
    in.side = p.side;
    in.k = p.k;
    in.columns = plan->points[columns];
    in.first = b->at.tile * plan->tile[columns];
    in.n = min(plan->tile[columns], n_columns - in.first);
    in.tile_at = plan->tile_at[columns];
    in.tile_room = plan->tile[columns] + TENSOR_STEP;
    in.out_at = plan->rows_at;
    in.add = b->at.tile > 0;
    in.prepared = prepare_rows(plan, b, &p);
    // A block without rows looks nothing up: nobody waits for one, and the words could be those of
    // the next sweep when it comes to them.
    if (in.n_rows > 0) {
        if (!stage_columns(plan, b, &p, &in))
            return false;
        run_pass(p.tensor, p.what, &in);
    }
    const bool one_step = n_chunks == 1 && plan->n_tiles[columns] == 1;
    if (++b->at.tile == plan->n_tiles[columns]) {
        b->at.tile = 0;
        const bool last_chunk = b->at.chunk + 1 == n_chunks;
        finish_chunk(plan, b, &p, &in, b->first[p.side] + skipped, last_chunk);
        b->at.chunk++;
        if (last_chunk) {
            b->at.chunk = 0;
            b->at.pass += !p.last; // the last one while the sums are gathered
            b->at.waiting = p.last;
        }
    }
    return one_step || !__syncthreads_or(threadIdx.x == 0 && time_is_over(plan, b));
}

// The M-step, by thread 0 of every block.
static __device__ void solve(const struct plan *plan)
{
    shared_state.more = register_schedule_take(&plan->anneal, shared_state.sums, &shared_state.run,
                                               &shared_state.schedule);
    take_state(&plan->anneal);
}

// What comes after the last pass. False: the block leaves.
static __device__ __forceinline__ bool collect(const struct plan *plan, struct block *b)
{
    const bool anneals = b->at.stage == STAGE_ANNEAL;
    if (!gather_sums(plan, b,
                     !anneals              ? 2
                     : plan->anneal.planes ? REGISTER_N_SUMS
                                           : REGISTER_N_POINT_SUMS))
        return false;
    if (threadIdx.x == 0) {
        if (anneals) {
            solve(plan);
        } else {
            // All that was measured, and of it the target's.
            shared_state.run.presence_source =
                (shared_state.sums[0] - shared_state.sums[1]) / plan->anneal.n_source;
            shared_state.run.presence_target = shared_state.sums[1] / plan->anneal.n_target;
        }
        shared_state.late = time_is_over(plan, b);
    } else if (threadIdx.x == 32 && anneals) {
        // Beside the solve, one level ahead: its exponentials would be in the way elsewhere.
        const double lower = shared_state.next.sigma2 * plan->anneal.factor;
        if (shared_state.after.sigma2 != lower)
            shared_state.after = level_at(&plan->anneal, lower);
    }
    __syncthreads();
    if (threadIdx.x == 32 && anneals && shared_state.level.sigma2 == shared_state.next.sigma2)
        shared_state.next = shared_state.after;
    b->prepared = false;
    b->at.waiting = b->at.pass = 0;
    b->at.iteration++;
    if (!anneals) {
        b->at.stage = STAGE_DONE;
    } else if (!shared_state.more) {
        b->at.stage = plan->anneal.presence_sigma2 > 0 ? STAGE_PRESENCE : STAGE_DONE;
        b->staged[0] = b->staged[1] = false; // in the float form
    }
    return !shared_state.late;
}

#endif
