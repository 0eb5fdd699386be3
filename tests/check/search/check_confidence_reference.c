// SPDX-License-Identifier: Apache-2.0
// What the pose search concludes from scored candidates, against a reference that shares no formula
// with it (score.h): rivals, the confidence, which answers are kept.
#include <math.h>
#include <string.h>

#include "gpu/search/confidence.h"
#include "tests/check/check.h"
#include "tests/check/search/reference.h"
#include "tests/check/search/score.h"

static const struct check_limit limits[] = {
    {"float", 1e-5, 1e-5, "a dozen float operations"},
};
enum { LIMIT_FLOAT };

static void close_to(int limit, double got, double expected, const char *name)
{
    check_close(&limits[limit], got, expected, fabs(expected), name);
}

// A cross of vertices about the centre, radius 0.1 m; its own unit is a map pixel of 5 mm.
static float axes[3][64];
static struct search_object object = {.info = {.radius_m = 0.1f, .map_px_m = 0.005f},
                                      .n_vertices = 60};

static void make_object(void)
{
    object.x = axes[0];
    object.y = axes[1];
    object.z = axes[2];
    for (int i = 0; i < 60; i++) // an arm each along x, y and z, of different lengths
        axes[i % 3][i] = (float)(i / 3 + 1) * (i % 3 == 0 ? 1 : i % 3 == 1 ? 0.6f : 0.3f);
}

static struct search_candidate candidate(double x, double y, double turn, double score,
                                         double agree)
{
    struct search_candidate c = {
        .t_m = {(float)x, (float)y, 0.8f}, .score = (float)score, .agree = (float)agree};
    const double axis[3] = {0, 0, 1};
    double r[9];
    reference_about(axis, turn, r);
    for (int k = 0; k < 9; k++)
        c.rotation[k] = (float)r[k];
    return c;
}

// Mean distance from each vertex in pose a to the nearest in pose b.
static double apart(const struct search_candidate *a, const struct search_candidate *b)
{
    double sum = 0;
    for (int i = 0; i < 60; i++) {
        double nearest = INFINITY, r[9], p[3], q[3];
        reference_widen(a->rotation, 9, r);
        for (int k = 0; k < 3; k++)
            p[k] = 0.005 * (double)axes[k][i];
        reference_turn(r, p, p);
        for (int j = 0; j < 60; j++) {
            double d2 = 0;
            reference_widen(b->rotation, 9, r);
            for (int k = 0; k < 3; k++)
                q[k] = 0.005 * (double)axes[k][j];
            reference_turn(r, q, q);
            for (int k = 0; k < 3; k++)
                d2 += pow(p[k] + (double)a->t_m[k] - q[k] - (double)b->t_m[k], 2);
            nearest = fmin(nearest, d2);
        }
        sum += sqrt(nearest) / 60;
    }
    return sum;
}

static void check_rivals(void)
{
    check_case("rivals");
    int n_rivals = 0;
    make_object();
    for (int i = 0; i < 800; i++) {
        struct search_candidate c[3];
        double expected = -20, decides = 1;
        for (int k = 0; k < 3; k++)
            c[k] = candidate(check_uniform(-0.08, 0.08), check_uniform(-0.08, 0.08),
                             check_uniform(0, 3), check_uniform(-3, 3), 0);
        for (int k = 1; k < 3; k++) {
            const double way[3] = {(double)(c[k].t_m[0] - c[0].t_m[0]),
                                   (double)(c[k].t_m[1] - c[0].t_m[1]), 0};
            const double there = sqrt(reference_dot(way, way)) - 0.1 * sqrt(2);
            const double contradicts = apart(&c[0], &c[k]) - 0.016;
            decides = fmin(decides, fmin(fabs(there), fabs(contradicts)));
            if (there < 0 && contradicts > 0)
                expected = fmax(expected, (double)(c[k].score - c[0].score));
        }
        if (decides < 1e-6)
            continue;
        n_rivals += expected > -20;
        close_to(LIMIT_FLOAT, (double)search_rival(&object, c, 3, 0), expected, "rival");
    }
    check_that(n_rivals > 200 && n_rivals < 796, "%d with a rival", n_rivals);
    for (int i = 0; i < 500; i++) {
        const struct search_candidate c = {.score = (float)check_uniform(-10, 20),
                                           .continued = (float)check_uniform(0, 0.6),
                                           .smooth = (float)check_uniform(0, 0.4)};
        const double rival = check_uniform(-20, 15);
        close_to(LIMIT_FLOAT, (double)search_confidence(&c, (float)rival),
                 score_confidence((double)c.score, rival, (double)c.continued + (double)c.smooth),
                 "confidence");
    }
}

// The best by score; of those at one place that are nearly as good the one that agrees most, with
// what the best one is sure of as its score. Near ones of what is kept are dropped.
static void check_answers(void)
{
    check_case("answers");
    int n_chosen = 0;
    make_object();
    for (int i = 0; i < 700; i++) {
        struct search_candidate c[5], got[5];
        const uint32_t top = (uint32_t)(i % 3);
        uint32_t n = 5;
        double decides = 1;
        bool gone[5] = {false};
        for (int k = 0; k < 5; k++)
            got[k] = c[k] = candidate(check_uniform(-0.05, 0.05), check_uniform(-0.03, 0.03),
                                      k * 1.1 + check_uniform(0, 0.2), check_uniform(-2, 2),
                                      check_uniform(0, 100));
        if (i % 4 == 0) // the same answer, at the limit of what is as good
            got[1] = c[1] = candidate((double)c[0].t_m[0] + 0.01, (double)c[0].t_m[1], 0.1,
                                      (double)c[0].score - check_uniform(2.48, 2.52), 101);
        for (int k = 0; k < 5; k++)
            got[k].sure = c[k].sure = (float)check_uniform(-2, 2);
        const uint32_t n_kept = search_keep_answers(&object, got, n, top);
        uint32_t kept = 0;
        for (; kept < 5; kept++) {
            int best = -1, chosen;
            for (int k = 0; k < 5; k++)
                best = !gone[k] && (best < 0 || c[k].score > c[best].score) ? k : best;
            if (best < 0)
                break;
            chosen = best;
            for (int k = 0; k < 5 && kept < top; k++) {
                const double behind = (double)(c[best].score - c[k].score);
                const double off = apart(&c[best], &c[k]) / 0.1;
                if (gone[k] || k == best)
                    continue;
                decides = fmin(decides, fmin(fabs(behind - 2.5), fabs(behind - 1)));
                decides = fmin(decides, fmin(fabs(off - 0.25), fabs(off - 0.5)));
                if (behind < 2.5 && (off < 0.25 || (off < 0.5 && behind < 1)) &&
                    c[k].agree > c[chosen].agree)
                    chosen = k;
            }
            const struct search_candidate answer = c[chosen];
            n_chosen += chosen != best;
            if (decides > 1e-4 && kept < n_kept) {
                check_that(got[kept].agree == answer.agree, "answer %u", kept);
                check_that(got[kept].score == c[best].sure, "score of answer %u", kept);
            }
            gone[chosen] = true;
            for (int k = 0; k < 5; k++) {
                double way2 = 0, trace = 0;
                for (int a = 0; a < 9; a++)
                    trace += (double)(answer.rotation[a] * c[k].rotation[a]);
                for (int a = 0; a < 3; a++)
                    way2 += pow((double)(answer.t_m[a] - c[k].t_m[a]), 2);
                decides = fmin(decides, fabs(sqrt(way2) - 0.03));
                gone[k] = gone[k] || (sqrt(way2) < 0.03 && trace > 1 + 2 * cos(0.26));
            }
        }
        if (decides > 1e-4)
            check_that(n_kept == kept, "%u answers, not %u", n_kept, kept);
    }
    check_that(n_chosen > 25, "%d chosen", n_chosen);
}

int main(int argc, char **argv)
{
    check_begin(argc, argv);
    check_rivals();
    check_answers();
    return check_end();
}
