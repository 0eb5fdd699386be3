// SPDX-License-Identifier: Apache-2.0
// Reading and writing of trajectories. Times are parsed as long double: a Unix time in nanoseconds
// needs 61 bits of mantissa, a double has 53 (and would be 0.2 us off).
#include "proto/trajectory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/se3.h"

#define NS_PER_S   1000000000LL
#define LINE_BYTES 4096 // of a trajectory; its eight numbers take 200
#define TUM_LINE   ", expected `timestamp tx ty tz qx qy qz qw`"

// Where a map epoch begins: its number, and behind it, but for the first, that it is another world.
#define EPOCH_MARK  "# map epoch "
#define EPOCH_BREAK ", not connected to the lines before"

// Where the machine's clock was set, and by how much in all.
#define CLOCK_MARK "# clock set "
#define CLOCK_END  " s since the beginning"

static int write_time(FILE *file, int64_t time_ns)
{
    const char *sign = time_ns < 0 ? "-" : "";
    return fprintf(file, "%s%lld.%09lld", sign, llabs(time_ns / NS_PER_S),
                   llabs(time_ns % NS_PER_S));
}

int trajectory_write_tum(FILE *file, const struct stamped_pose *pose)
{
    const struct se3 *T = &pose->T_world_camera;
    double q[4];
    se3_to_quaternion(T, q);
    if (write_time(file, pose->time_ns) < 0)
        return -EIO;
    int n = fprintf(file, " %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n", T->t_m[0], T->t_m[1], T->t_m[2],
                    q[0], q[1], q[2], q[3]);
    return n < 0 ? -EIO : 0;
}

int trajectory_write(FILE *file, enum trajectory_format format, const struct stamped_pose *pose,
                     const struct pose_error *error)
{
    const double *r = pose->T_world_camera.r, *t = pose->T_world_camera.t_m;
    if (format == TRAJECTORY_FORMAT_TUM)
        return trajectory_write_tum(file, pose);
    if (format == TRAJECTORY_FORMAT_COVARIANCE)
        return pose_error_write(file, pose, error);
    int n = fprintf(file, "%.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f %.9f\n", r[0],
                    r[1], r[2], t[0], r[3], r[4], r[5], t[1], r[6], r[7], r[8], t[2]);
    return n < 0 ? -EIO : 0;
}

static int write_part(FILE *file, struct trajectory_marks *marks,
                      const struct trajectory_part *part)
{
    const struct trajectory_marks before = *marks; // {0} at first
    const char *end = before.is_begun ? EPOCH_BREAK : "";
    *marks = (struct trajectory_marks){true, *part};
    if (part->epoch != before.part.epoch &&
        fprintf(file, EPOCH_MARK "%u%s\n", part->epoch, end) < 0)
        return -EIO;
    if (part->clock_set_ns != before.part.clock_set_ns &&
        (fputs(CLOCK_MARK, file) < 0 || write_time(file, part->clock_set_ns) < 0 ||
         fputs(CLOCK_END "\n", file) < 0))
        return -EIO;
    return 0;
}

int trajectory_write_marked(FILE *file, enum trajectory_format format,
                            struct trajectory_marks *marks, const struct trajectory_part *part,
                            enum trajectory_origin origin, const struct stamped_pose *pose,
                            const struct pose_error *error)
{
    const char *what =
        origin == TRAJECTORY_ORIGIN_LOST ? "lost: no pose" : "predicted: no measurement";
    if (format == TRAJECTORY_FORMAT_KITTI)
        return trajectory_write(file, format, pose, error);
    if (write_part(file, marks, part) != 0)
        return -EIO;
    if (origin == TRAJECTORY_ORIGIN_MEASURED)
        return trajectory_write(file, format, pose, error);
    if (fputs("# ", file) < 0 || write_time(file, pose->time_ns) < 0 ||
        fprintf(file, " %s\n", what) < 0)
        return -EIO;
    return 0;
}

// `error`: NULL when the file has none.
static int trajectory_append(struct trajectory *trajectory, size_t *capacity,
                             const struct stamped_pose *pose, const struct trajectory_part *part,
                             const struct pose_error *error)
{
    if (trajectory->n_poses == *capacity) {
        size_t grown = *capacity ? 2 * *capacity : 256;
        void *poses = realloc(trajectory->poses, grown * sizeof *trajectory->poses);
        if (!poses)
            return -ENOMEM;
        trajectory->poses = poses;
        void *parts = realloc(trajectory->parts, grown * sizeof *trajectory->parts);
        if (!parts)
            return -ENOMEM;
        trajectory->parts = parts;
        if (error) {
            void *errors = realloc(trajectory->errors, grown * sizeof *trajectory->errors);
            if (!errors)
                return -ENOMEM;
            trajectory->errors = errors;
        }
        *capacity = grown;
    }
    if (error)
        trajectory->errors[trajectory->n_poses] = *error;
    trajectory->parts[trajectory->n_poses] = *part;
    trajectory->poses[trajectory->n_poses++] = *pose;
    return 0;
}

// A pose on its way through sorting; `order` keeps the sort stable, so that of equal times the
// first line wins.
struct sort_entry {
    struct stamped_pose pose;
    struct trajectory_part part;
    size_t order;
};

static int compare_entries(const void *a, const void *b)
{
    const struct sort_entry *x = a, *y = b;
    if (x->pose.time_ns != y->pose.time_ns)
        return x->pose.time_ns < y->pose.time_ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

bool trajectory_is_same_part(const struct trajectory_part *a, const struct trajectory_part *b)
{
    return a->epoch == b->epoch && a->clock_set_ns == b->clock_set_ns;
}

// Sorts by time and drops repeated times. Parts that are all the same are dropped, too.
static int trajectory_order(struct trajectory *trajectory, const char *path,
                            const struct log_sink *log)
{
    size_t n = trajectory->n_poses;
    struct sort_entry *entries = malloc(n * sizeof *entries);
    struct pose_error *errors = trajectory->errors ? malloc(n * sizeof *errors) : NULL;
    if (!entries || (trajectory->errors && !errors)) {
        free(entries);
        free(errors);
        return -ENOMEM;
    }
    bool sorted = true, is_wrong = false; // all; a time falls although no clock was set
    for (size_t i = 0; i < n; i++) {
        const struct trajectory_part *parts = trajectory->parts;
        entries[i] = (struct sort_entry){trajectory->poses[i], parts[i], i};
        const bool falls = i && trajectory->poses[i - 1].time_ns > trajectory->poses[i].time_ns;
        sorted = sorted && !falls;
        is_wrong = is_wrong || (falls && parts[i - 1].clock_set_ns == parts[i].clock_set_ns);
    }
    if (is_wrong && trajectory->errors) { // they hang together in the order of their growth
        log_to(log, LOG_LEVEL_ERROR, "%s: times out of order in a file with covariances", path);
        free(entries);
        free(errors);
        return -EINVAL;
    }
    if (!sorted)
        qsort(entries, n, sizeof *entries, compare_entries);
    if (is_wrong)
        log_to(log, LOG_LEVEL_WARNING, "%s: times out of order, sorted", path);
    size_t kept = 0;
    bool is_one = true;
    for (size_t i = 0; i < n; i++) {
        const struct sort_entry *e = &entries[i];
        if (kept && trajectory->poses[kept - 1].time_ns == e->pose.time_ns &&
            trajectory->parts[kept - 1].clock_set_ns == e->part.clock_set_ns)
            continue;
        if (errors)
            errors[kept] = trajectory->errors[e->order];
        is_one = is_one && trajectory_is_same_part(&e->part, &entries[0].part);
        trajectory->parts[kept] = e->part;
        trajectory->poses[kept++] = e->pose;
    }
    free(entries);
    free(trajectory->errors);
    trajectory->errors = errors;
    if (is_one) {
        free(trajectory->parts);
        trajectory->parts = NULL;
    }
    if (kept < n)
        log_to(log, LOG_LEVEL_WARNING, "%s: %zu poses repeat a time and were left out", path,
               n - kept);
    trajectory->n_poses = kept;
    return 0;
}

// Reads `wanted` numbers separated by blanks or commas. Returns how many there were before the
// first text that is not a number; *out_rest points there.
static int parse_numbers(const char *text, int wanted, long double *out, const char **out_rest)
{
    int n = 0;
    while (n < wanted) {
        char *end;
        out[n] = strtold(text, &end);
        if (end == text)
            break;
        n++;
        text = end + (*end == ',');
    }
    *out_rest = text + strspn(text, " \t\r\n");
    return n;
}

static bool all_finite(const long double *values, int n)
{
    for (int i = 0; i < n; i++)
        if (!isfinite(values[i]))
            return false;
    return true;
}

// What stands behind the eight numbers of a line: POSE_ERROR_COLUMNS numbers and nothing more.
static bool parse_error(const char *text, struct pose_error *out)
{
    long double f[POSE_ERROR_COLUMNS];
    double columns[POSE_ERROR_COLUMNS];
    const char *rest;
    if (parse_numbers(text, POSE_ERROR_COLUMNS, f, &rest) < POSE_ERROR_COLUMNS || *rest ||
        !all_finite(f, POSE_ERROR_COLUMNS))
        return false;
    for (int i = 0; i < POSE_ERROR_COLUMNS; i++) {
        if (!(fabsl(f[i]) <= 1e12L))
            return false;
        columns[i] = (double)f[i];
    }
    pose_error_parse(columns, out);
    return true;
}

// One line of a TUM file. Returns 1 and a pose, 2 with *out_error too, 0 for a blank or comment
// line, -EINVAL.
static int parse_tum_line(const char *line, const char *path, size_t line_number,
                          const struct log_sink *log, struct stamped_pose *out,
                          struct pose_error *out_error)
{
    const char *start = line + strspn(line, " \t\r\n"), *rest, *wrong = NULL;
    if (!*start || *start == '#')
        return 0;
    long double f[8];
    int n = parse_numbers(start, 8, f, &rest);
    bool has_error = n == 8 && *rest && *rest != '#' && parse_error(rest, out_error);
    if (n < 8)
        wrong = "too few fields";
    else if (*rest && *rest != '#' && !has_error)
        wrong = "more than 8 fields";
    else if (!all_finite(f, 8))
        wrong = "NaN or infinity";
    else if (fabsl(f[0]) > 9.2e9L)
        wrong = "time out of range (seconds expected)";
    else if (!(fabsl(f[1]) <= 1e6L && fabsl(f[2]) <= 1e6L && fabsl(f[3]) <= 1e6L))
        wrong = "position out of range (metres expected)";
    else if (!(fabsl(f[4]) <= 1e3L && fabsl(f[5]) <= 1e3L && fabsl(f[6]) <= 1e3L &&
               fabsl(f[7]) <= 1e3L))
        wrong = "quaternion out of range";
    else if (!(f[4] * f[4] + f[5] * f[5] + f[6] * f[6] + f[7] * f[7] > 1e-6L))
        wrong = "zero quaternion";
    if (n < 8 && *rest)
        log_to(log, LOG_LEVEL_ERROR, "%s:%zu: field %d is not a number" TUM_LINE, path, line_number,
               n + 1);
    else if (wrong)
        log_to(log, LOG_LEVEL_ERROR, "%s:%zu: %s" TUM_LINE, path, line_number, wrong);
    if (wrong)
        return -EINVAL;
    double t_m[3] = {(double)f[1], (double)f[2], (double)f[3]};
    double q[4] = {(double)f[4], (double)f[5], (double)f[6], (double)f[7]};
    out->time_ns = llroundl(f[0] * (long double)NS_PER_S);
    out->T_world_camera = se3_from_quaternion(q, t_m);
    return has_error ? 2 : 1;
}

// Whether the line begins a map epoch: what trajectory_write_marked says of one.
static bool parse_epoch(const char *line, uint32_t *out)
{
    const char *number = line + strlen(EPOCH_MARK);
    if (strncmp(line, EPOCH_MARK, strlen(EPOCH_MARK)) != 0)
        return false;
    const size_t n = strspn(number, "0123456789");
    const char *end = number + n + strspn(number + n, "\r");
    if (n == 0 || n > 10 || (*end && strncmp(end, EPOCH_BREAK, strlen(EPOCH_BREAK)) != 0))
        return false;
    *out = (uint32_t)strtoull(number, NULL, 10);
    return true;
}

// Whether the line tells of a set clock, as trajectory_write_marked does.
static bool parse_clock_set(const char *line, int64_t *out_ns)
{
    char *end;
    if (strncmp(line, CLOCK_MARK, strlen(CLOCK_MARK)) != 0)
        return false;
    const long double set_s = strtold(line + strlen(CLOCK_MARK), &end);
    if (strncmp(end, CLOCK_END, strlen(CLOCK_END)) != 0 || !(fabsl(set_s) <= 9.2e9L))
        return false;
    *out_ns = llroundl(set_s * (long double)NS_PER_S);
    return true;
}

// Reads a line and cuts off its end. Returns 1, 0 at the end of the file, or -EINVAL with a reason:
// neither getline, whose memory has no bound, nor fgets, which does not tell of a NUL, will do.
static int read_line(FILE *file, char out[LINE_BYTES], const char **out_reason)
{
    size_t n = 0;
    int c = getc(file);
    if (c == EOF)
        return 0;
    for (; c != EOF && c != '\n'; c = getc(file)) {
        if (c == '\0' || n + 1 == LINE_BYTES) {
            *out_reason = c ? "line too long" : "NUL byte";
            return -EINVAL;
        }
        out[n++] = (char)c;
    }
    out[n] = '\0';
    return 1;
}

int trajectory_parse_tum(FILE *file, const char *name, const struct log_sink *log,
                         struct trajectory *out)
{
    *out = (struct trajectory){0};
    char line[LINE_BYTES];
    const char *reason = NULL;
    size_t capacity = 0, line_number = 0;
    struct trajectory_part part = {0};
    int status;
    while ((status = read_line(file, line, &reason)) > 0) {
        struct stamped_pose pose;
        struct pose_error error;
        status = parse_tum_line(line, name, ++line_number, log, &pose, &error);
        if (status == 0 &&
            (parse_epoch(line, &part.epoch) || parse_clock_set(line, &part.clock_set_ns)))
            continue;
        if (status > 0 && out->n_poses && (status == 2) != (out->errors != NULL)) {
            log_to(log, LOG_LEVEL_ERROR, "%s:%zu: covariances on some lines only", name,
                   line_number);
            status = -EINVAL;
        }
        if (status > 0)
            status = trajectory_append(out, &capacity, &pose, &part, status == 2 ? &error : NULL);
        if (status < 0)
            goto done;
    }
    if (status < 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s:%zu: %s" TUM_LINE, name, line_number + 1, reason);
    } else if (ferror(file)) {
        log_to(log, LOG_LEVEL_ERROR, "%s: cannot be read: %s", name, strerror(errno));
        status = -EIO;
    } else if (out->n_poses == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: holds no pose", name);
        status = -EINVAL;
    } else {
        status = trajectory_order(out, name, log);
    }
done:
    if (status < 0)
        trajectory_free(out);
    return status;
}

int trajectory_read_tum(const char *path, const struct log_sink *log, struct trajectory *out)
{
    *out = (struct trajectory){0};
    FILE *file = fopen(path, "r");
    if (!file) {
        int error = errno;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", path, strerror(error));
        return error == ENOENT ? -ENOENT : -EIO;
    }
    int err = trajectory_parse_tum(file, path, log, out);
    fclose(file);
    return err;
}

// The text of a regular file in the folder, not through a link. Returns its length or -EIO.
static long read_small_file(int folder, const char *name, char *out, size_t n_out_bytes)
{
    struct stat st;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        if (fd >= 0)
            close(fd);
        return -EIO;
    }
    size_t length = 0;
    ssize_t n = 1;
    while (length < n_out_bytes - 1 && (n = read(fd, out + length, n_out_bytes - 1 - length)) > 0)
        length += (size_t)n;
    close(fd);
    out[length] = '\0';
    return n < 0 ? -EIO : (long)length;
}

// One 4x4 matrix in a file of its own; `path` is for messages. Returns 0, -EIO, -EINVAL.
static int read_matrix(int folder, const char *name, const char *path, const struct log_sink *log,
                       struct se3 *out)
{
    char text[2048];
    long length = read_small_file(folder, name, text, sizeof text);
    if (length < 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: not a regular file, or cannot be read", path);
        return -EIO;
    }
    long double m[16];
    const char *rest, *wrong = NULL;
    int n = parse_numbers(text, 16, m, &rest);
    if (length == sizeof text - 1)
        wrong = "file too long";
    else if (strlen(text) != (size_t)length)
        wrong = "NUL byte";
    else if (n < 16)
        wrong = "fewer than 16 numbers";
    else if (*rest)
        wrong = "more than 16 numbers";
    else if (!all_finite(m, 16))
        wrong = "NaN or infinity";
    else if (fabsl(m[12]) + fabsl(m[13]) + fabsl(m[14]) + fabsl(m[15] - 1) > 1e-6L)
        wrong = "last row is not 0 0 0 1";
    for (int i = 0; !wrong && i < 12; i++) // a long double may be finite where a double is not
        if (fabsl(m[i]) > (i % 4 == 3 ? 1e6L : 2))
            wrong = i % 4 == 3 ? "position out of range (metres expected)"
                               : "upper left 3x3 is not a rotation";
    struct se3 T = se3_identity();
    for (int i = 0; !wrong && i < 3; i++) {
        for (int j = 0; j < 3; j++)
            T.r[3 * i + j] = (double)m[4 * i + j];
        T.t_m[i] = (double)m[4 * i + 3];
    }
    if (!wrong) { // a rotation, up to the digits that such files keep
        struct se3 back = se3_normalized(&T);
        double worst = 0;
        for (int i = 0; i < 9; i++)
            worst = fmax(worst, fabs(back.r[i] - T.r[i]));
        if (!(worst < 1e-2))
            wrong = "upper left 3x3 is not a rotation";
        *out = back;
    }
    if (wrong) {
        log_to(log, LOG_LEVEL_ERROR, "%s: %s, expected a 4x4 camera-to-world matrix", path, wrong);
        return -EINVAL;
    }
    return 0;
}

long trajectory_frame_number(const char *name, const char *suffix)
{
    if (strncmp(name, "frame-", 6) != 0 || strspn(name + 6, "0123456789") != 6 ||
        strcmp(name + 12, suffix) != 0)
        return -1;
    return strtol(name + 6, NULL, 10);
}

int64_t trajectory_frame_time_ns(uint64_t number)
{
    return (int64_t)(number * NS_PER_S / 30);
}

int trajectory_read_sevenscenes(const char *folder, const struct log_sink *log,
                                struct trajectory *out)
{
    *out = (struct trajectory){0};
    DIR *dir = opendir(folder);
    if (!dir) {
        int error = errno;
        log_to(log, LOG_LEVEL_ERROR, "%s: %s", folder, strerror(error));
        return error == ENOENT ? -ENOENT : -EIO;
    }
    size_t capacity = 0;
    int status = 0;
    for (struct dirent *entry; (entry = readdir(dir));) {
        long number = trajectory_frame_number(entry->d_name, ".pose.txt");
        if (number < 0)
            continue;
        char path[4096];
        if (snprintf(path, sizeof path, "%s/%s", folder, entry->d_name) >= (int)sizeof path) {
            log_to(log, LOG_LEVEL_ERROR, "%s: path too long", folder);
            status = -EINVAL;
            break;
        }
        struct stamped_pose pose = {.time_ns = trajectory_frame_time_ns((uint64_t)number)};
        status = read_matrix(dirfd(dir), entry->d_name, path, log, &pose.T_world_camera);
        if (!status)
            status = trajectory_append(out, &capacity, &pose, &(struct trajectory_part){0}, NULL);
        if (status)
            break;
    }
    closedir(dir);
    if (!status && out->n_poses == 0) {
        log_to(log, LOG_LEVEL_ERROR, "%s: no frame-000000.pose.txt or the like in this folder",
               folder);
        status = -ENOENT;
    }
    if (!status) // readdir knows no order, which is not worth a warning
        status = trajectory_order(out, folder, NULL);
    if (status)
        trajectory_free(out);
    return status;
}

int trajectory_at(const struct trajectory *trajectory, int64_t time_ns, int64_t max_gap_ns,
                  struct se3 *out_T_world_camera)
{
    const struct stamped_pose *poses = trajectory->poses;
    size_t low = 0, high = trajectory->n_poses; // first pose later than time_ns
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (poses[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return -ERANGE;
    const struct stamped_pose *before = &poses[low - 1];
    if (before->time_ns == time_ns) {
        *out_T_world_camera = before->T_world_camera;
        return 0;
    }
    if (low == trajectory->n_poses)
        return -ERANGE;
    const struct stamped_pose *after = &poses[low];
    // Unsigned: the gap between two times may not fit an int64.
    if ((uint64_t)after->time_ns - (uint64_t)before->time_ns > (uint64_t)max_gap_ns)
        return -ERANGE;
    double part = (double)(time_ns - before->time_ns) / (double)(after->time_ns - before->time_ns);
    // slerp: the part of the rotation vector between the two
    struct se3 step = se3_between(&before->T_world_camera, &after->T_world_camera);
    double twist[6] = {0};
    se3_rotation_vector(&step, twist + 3);
    for (int i = 3; i < 6; i++)
        twist[i] *= part;
    struct se3 turn = se3_exp(twist);
    *out_T_world_camera = se3_compose(&before->T_world_camera, &turn);
    for (int i = 0; i < 3; i++)
        out_T_world_camera->t_m[i] =
            (1 - part) * before->T_world_camera.t_m[i] + part * after->T_world_camera.t_m[i];
    return 0;
}

struct trajectory_part trajectory_part_of(const struct trajectory *trajectory, size_t i)
{
    return trajectory->parts ? trajectory->parts[i] : (struct trajectory_part){0};
}

int trajectory_of_part(const struct trajectory *trajectory, const struct trajectory_part *part,
                       struct trajectory *out)
{
    size_t capacity = 0;
    *out = (struct trajectory){0};
    for (size_t i = 0; i < trajectory->n_poses; i++) {
        const struct pose_error *error = trajectory->errors ? &trajectory->errors[i] : NULL;
        const struct trajectory_part its = trajectory_part_of(trajectory, i);
        if (!trajectory_is_same_part(&its, part))
            continue;
        if (trajectory_append(out, &capacity, &trajectory->poses[i], part, error) != 0) {
            trajectory_free(out);
            return -ENOMEM;
        }
    }
    return 0;
}

void trajectory_free(struct trajectory *trajectory)
{
    free(trajectory->parts);
    free(trajectory->poses);
    free(trajectory->errors);
    *trajectory = (struct trajectory){0};
}
