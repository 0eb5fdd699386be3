// SPDX-License-Identifier: Apache-2.0
#include "capture/ros/schemas.h"

#include <string.h>

#define RULE               "========================================"
#define PART(name, fields) RULE RULE "\nMSG: " name "\n" fields

#define HEADER                                                                  \
    PART("std_msgs/Header", "builtin_interfaces/Time stamp\nstring frame_id\n") \
    PART("builtin_interfaces/Time", "int32 sec\nuint32 nanosec\n")
#define XYZ        "float64 x\nfloat64 y\nfloat64 z\n"
#define VECTOR     PART("geometry_msgs/Vector3", XYZ)
#define QUATERNION PART("geometry_msgs/Quaternion", XYZ "float64 w\n")

static const struct {
    const char *type, *text;
} schemas[] = {
    {"sensor_msgs/msg/Image",
     "std_msgs/Header header\nuint32 height\nuint32 width\nstring encoding\n"
     "uint8 is_bigendian\nuint32 step\nuint8[] data\n" HEADER},
    {"sensor_msgs/msg/CameraInfo",
     "std_msgs/Header header\nuint32 height\nuint32 width\nstring distortion_model\n"
     "float64[] d\nfloat64[9] k\nfloat64[9] r\nfloat64[12] p\nuint32 binning_x\n"
     "uint32 binning_y\nsensor_msgs/RegionOfInterest roi\n" HEADER PART(
         "sensor_msgs/RegionOfInterest", "uint32 x_offset\nuint32 y_offset\nuint32 height\n"
                                         "uint32 width\nbool do_rectify\n")},
    {"nav_msgs/msg/Odometry",
     "std_msgs/Header header\nstring child_frame_id\ngeometry_msgs/PoseWithCovariance pose\n"
     "geometry_msgs/TwistWithCovariance twist\n" HEADER PART(
         "geometry_msgs/PoseWithCovariance", "geometry_msgs/Pose pose\nfloat64[36] covariance\n")
         PART("geometry_msgs/Pose",
              "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation\n")
             PART("geometry_msgs/Point", XYZ)
                 QUATERNION PART("geometry_msgs/TwistWithCovariance",
                                 "geometry_msgs/Twist twist\nfloat64[36] covariance\n")
                     PART("geometry_msgs/Twist",
                          "geometry_msgs/Vector3 linear\ngeometry_msgs/Vector3 angular\n") VECTOR},
    {"tf2_msgs/msg/TFMessage",
     "geometry_msgs/TransformStamped[] transforms\n" PART(
         "geometry_msgs/TransformStamped", "std_msgs/Header header\nstring child_frame_id\n"
                                           "geometry_msgs/Transform transform\n")
         HEADER PART("geometry_msgs/Transform",
                     "geometry_msgs/Vector3 translation\ngeometry_msgs/Quaternion rotation\n")
             VECTOR QUATERNION},
};

const char *ros_schema(const char *type, size_t *out_n_bytes)
{
    for (size_t i = 0; i < sizeof schemas / sizeof *schemas; i++)
        if (!strcmp(schemas[i].type, type)) {
            *out_n_bytes = strlen(schemas[i].text);
            return schemas[i].text;
        }
    *out_n_bytes = 0;
    return NULL;
}
