// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/messages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/clock.h"

static bool is_name(const char *type, size_t n, const char *package, const char *name)
{
    static const char *const joints[][2] = {{"/", ""}, {"/msg/", ""}, {"::msg::dds_::", "_"}};
    char full[96];
    for (size_t i = 0; i < sizeof joints / sizeof *joints; i++) {
        int length =
            snprintf(full, sizeof full, "%s%s%s%s", package, joints[i][0], name, joints[i][1]);
        if ((size_t)length == n && !memcmp(full, type, n))
            return true;
    }
    return false;
}

enum ros_kind ros_kind_of(const char *type, size_t n)
{
    static const struct {
        const char *package, *name;
        enum ros_kind kind;
    } kinds[] = {
        {"sensor_msgs", "Image", ROS_IMAGE},
        {"sensor_msgs", "CompressedImage", ROS_COMPRESSED_IMAGE},
        {"sensor_msgs", "CameraInfo", ROS_CAMERA_INFO},
        {"std_msgs", "Float32", ROS_FLOAT32},
        {"std_msgs", "String", ROS_STRING},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (is_name(type, n, kinds[i].package, kinds[i].name))
            return kinds[i].kind;
    return ROS_OTHER;
}

static void get_header(struct cdr *cdr, struct ros_header *out)
{
    if (cdr->is_ros1)
        (void)cdr_u32(cdr); // seq
    int32_t sec = (int32_t)cdr_u32(cdr);
    uint32_t nanosec = cdr_u32(cdr);
    bool is_time = (sec >= 0 || cdr->is_ros1) && nanosec < 1000000000;
    out->time_ns = is_time ? (int64_t)(uint32_t)sec * 1000000000 + nanosec : 0;
    cdr_copy_string(cdr, out->frame_id, sizeof out->frame_id);
}

bool ros_get_image(const void *message, size_t n_bytes, enum ros_encoding encoding,
                   bool is_compressed, struct ros_image *out)
{
    struct cdr cdr;
    *out = (struct ros_image){.is_compressed = is_compressed};
    if (!cdr_begin(&cdr, message, n_bytes, encoding))
        return false;
    get_header(&cdr, &out->header);
    if (!is_compressed) {
        out->height_px = cdr_u32(&cdr);
        out->width_px = cdr_u32(&cdr);
    }
    cdr_copy_string(&cdr, out->encoding, sizeof out->encoding);
    if (!is_compressed) {
        out->is_big_endian = cdr_u8(&cdr) != 0;
        out->step_bytes = cdr_u32(&cdr);
    }
    out->data = cdr_bytes(&cdr, &out->n_data_bytes);
    if (cdr.failed)
        return false;
    out->head = out->data ? out->data : cdr.data + cdr.at;
    out->n_head_bytes = out->data ? out->n_data_bytes : cdr.n_bytes - cdr.at;
    return true;
}

// The part of a matrix that binning and a region of interest leave.
static struct intrinsics cut(const double *matrix, size_t columns, const uint32_t *info)
{
    enum { HEIGHT, WIDTH, BINNING_X, BINNING_Y, X_OFFSET, Y_OFFSET, ROI_HEIGHT, ROI_WIDTH };
    uint32_t binning_x = info[BINNING_X] ? info[BINNING_X] : 1;
    uint32_t binning_y = info[BINNING_Y] ? info[BINNING_Y] : 1;
    bool whole = !info[ROI_WIDTH] || !info[ROI_HEIGHT];
    uint32_t width_px = whole ? info[WIDTH] : info[ROI_WIDTH];
    uint32_t height_px = whole ? info[HEIGHT] : info[ROI_HEIGHT];
    return (struct intrinsics){
        .fx_px = matrix[0] / binning_x,
        .fy_px = matrix[columns + 1] / binning_y,
        .cx_px = (matrix[2] - info[X_OFFSET]) / binning_x,
        .cy_px = (matrix[columns + 2] - info[Y_OFFSET]) / binning_y,
        .width_px = width_px / binning_x,
        .height_px = height_px / binning_y,
    };
}

bool ros_get_camera_info(const void *message, size_t n_bytes, enum ros_encoding encoding,
                         struct ros_camera_info *out)
{
    struct cdr cdr;
    char model[64];
    double k[9], r[9], p[12];
    uint32_t info[8];
    *out = (struct ros_camera_info){0};
    if (!cdr_begin(&cdr, message, n_bytes, encoding))
        return false;
    get_header(&cdr, &out->header);
    for (int i = 0; i < 2; i++)
        info[i] = cdr_u32(&cdr);
    cdr_copy_string(&cdr, model, sizeof model);
    for (uint32_t n = cdr_u32(&cdr); n > 0 && !cdr.failed; n--)
        out->distortion = fmax(out->distortion, fabs(cdr_f64(&cdr)));
    cdr_f64s(&cdr, 9, k);
    cdr_f64s(&cdr, 9, r);
    cdr_f64s(&cdr, 12, p);
    for (int i = 2; i < 8; i++)
        info[i] = cdr_u32(&cdr);
    (void)cdr_u8(&cdr); // do_rectify: asks the driver, says nothing of the image
    if (cdr.failed)
        return false;
    out->camera = cut(k, 3, info);
    out->rectified = cut(p, 4, info);
    return true;
}

bool ros_get_number(const void *message, size_t n_bytes, enum ros_encoding encoding,
                    enum ros_kind kind, double *out)
{
    struct cdr cdr;
    char text[40];
    if (!cdr_begin(&cdr, message, n_bytes, encoding))
        return false;
    if (kind == ROS_FLOAT32)
        snprintf(text, sizeof text, "%.6g", (double)cdr_f32(&cdr));
    else
        cdr_copy_string(&cdr, text, sizeof text);
    char *end;
    *out = strtod(text, &end);
    return !cdr.failed && end != text && isfinite(*out);
}

bool ros_get_realsense_time(const void *message, size_t n_bytes, enum ros_encoding encoding,
                            int64_t *out_time_ns)
{
    struct cdr cdr;
    char text[1024];
    if (!cdr_begin(&cdr, message, n_bytes, encoding))
        return false;
    cdr_copy_string(&cdr, text, sizeof text);
    const char *at = strstr(text, ";timestamp=");
    if (cdr.failed || !at)
        return false;
    at += sizeof ";timestamp=" - 1;
    // digit by digit: a double would round the nanoseconds of a date
    int64_t ns = 0;
    for (; *at >= '0' && *at <= '9' && ns < INT64_C(1000000000000); at++)
        ns = 10 * ns + (*at - '0'); // ms; 13 digits do until the year 2286
    bool has_point = *at == '.';
    for (int i = 0; i < 6; i++) {
        bool is_digit = has_point && at[1] >= '0' && at[1] <= '9';
        ns = 10 * ns + (is_digit ? *++at - '0' : 0);
    }
    *out_time_ns = ns;
    return true;
}

// ---- writing ----

static void put_header(struct cdr_out *out, int64_t time_ns, const char *frame_id)
{
    const struct timespec stamp = clock_timespec(time_ns);
    cdr_put_u32(out, (uint32_t)stamp.tv_sec);
    cdr_put_u32(out, (uint32_t)stamp.tv_nsec);
    cdr_put_string(out, frame_id);
}

size_t ros_put_image_head(const struct depth_frame *image, bool is_float, const char *frame_id,
                          unsigned char bytes[ROS_MAX_IMAGE_HEAD_BYTES])
{
    struct cdr_out out;
    uint32_t step_bytes = image->width_px * (is_float ? 4u : 2u);
    cdr_out_begin(&out, bytes, ROS_MAX_IMAGE_HEAD_BYTES);
    put_header(&out, image->time_ns, frame_id);
    cdr_put_u32(&out, image->height_px);
    cdr_put_u32(&out, image->width_px);
    cdr_put_string(&out, is_float ? "32FC1" : "16UC1");
    cdr_put_u8(&out, 0);
    cdr_put_u32(&out, step_bytes);
    cdr_put_u32(&out, step_bytes * image->height_px);
    return out.n;
}

size_t ros_put_camera_info(const struct intrinsics *camera, int64_t time_ns, const char *frame_id,
                           unsigned char bytes[ROS_MAX_CAMERA_INFO_BYTES])
{
    struct cdr_out out;
    double fx = camera->fx_px, fy = camera->fy_px, cx = camera->cx_px, cy = camera->cy_px;
    const double d[5] = {0}, k[9] = {fx, 0, cx, 0, fy, cy, 0, 0, 1};
    const double r[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1}, p[12] = {fx, 0, cx, 0, 0, fy, cy, 0, 0, 0, 1};
    cdr_out_begin(&out, bytes, ROS_MAX_CAMERA_INFO_BYTES);
    put_header(&out, time_ns, frame_id);
    cdr_put_u32(&out, camera->height_px);
    cdr_put_u32(&out, camera->width_px);
    cdr_put_string(&out, "plumb_bob");
    cdr_put_u32(&out, 5);
    cdr_put_f64s(&out, d, 5);
    cdr_put_f64s(&out, k, 9);
    cdr_put_f64s(&out, r, 9);
    cdr_put_f64s(&out, p, 12);
    for (int i = 0; i < 6; i++) // binning, region of interest: none
        cdr_put_u32(&out, 0);
    cdr_put_u8(&out, 0);
    return out.n;
}

size_t ros_put_odometry(const struct ros_pose *pose, unsigned char bytes[ROS_MAX_ODOMETRY_BYTES])
{
    struct cdr_out out;
    cdr_out_begin(&out, bytes, ROS_MAX_ODOMETRY_BYTES);
    put_header(&out, pose->time_ns, pose->frame_id);
    cdr_put_string(&out, pose->child_frame_id);
    cdr_put_f64s(&out, pose->position_m, 3);
    cdr_put_f64s(&out, pose->orientation_xyzw, 4);
    cdr_put_f64s(&out, pose->covariance, 36);
    cdr_put_f64s(&out, pose->linear_m_s, 3);
    cdr_put_f64s(&out, pose->angular_rad_s, 3);
    cdr_put_f64s(&out, pose->twist_covariance, 36);
    return out.n;
}

size_t ros_put_tf(const struct ros_pose *poses, uint32_t n, unsigned char *bytes)
{
    struct cdr_out out;
    cdr_out_begin(&out, bytes, (size_t)n * ROS_MAX_TF_BYTES);
    cdr_put_u32(&out, n);
    for (uint32_t i = 0; i < n; i++) {
        put_header(&out, poses[i].time_ns, poses[i].frame_id);
        cdr_put_string(&out, poses[i].child_frame_id);
        cdr_put_f64s(&out, poses[i].position_m, 3);
        cdr_put_f64s(&out, poses[i].orientation_xyzw, 4);
    }
    return out.n;
}
