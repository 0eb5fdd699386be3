// SPDX-License-Identifier: Apache-2.0
// Of the types in ros_types.idl that have topics. A type whose definition does not change has the
// same hash in all releases: Iron, Jazzy, Kilted.
#include "capture/ros/type_hash.h"

#include <stddef.h>
#include <string.h>

#define HASH(hex) "typehash=RIHS01_" hex ";"

const char *ros_type_hash(const char *type)
{
    static const struct {
        const char *type, *hash;
    } known[] = {
        {"diagnostic_msgs::msg::dds_::DiagnosticArray_",
         HASH("5a8a36efb05fb25070fa0fb3810290c0e6cd4862b54a8fb975a1ee8dc55a333e")},
        {"nav_msgs::msg::dds_::Odometry_",
         HASH("3cc97dc7fb7502f8714462c526d369e35b603cfc34d946e3f2eda2766dfec6e0")},
        {"rmw_dds_common::msg::dds_::ParticipantEntitiesInfo_",
         HASH("91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e")},
        {"sensor_msgs::msg::dds_::CameraInfo_",
         HASH("b3dfd68ff46c9d56c80fd3bd4ed22c7a4ddce8c8348f2f59c299e73118e7e275")},
        {"sensor_msgs::msg::dds_::CompressedImage_",
         HASH("15640771531571185e2efc8a100baf923961a4d15d5569652e6cb6691e8e371a")},
        {"sensor_msgs::msg::dds_::Image_",
         HASH("d31d41a9a4c4bc8eae9be757b0beed306564f7526c88ea6a4588fb9582527d47")},
        {"tf2_msgs::msg::dds_::TFMessage_",
         HASH("e369d0f05a23ae52508854b66f6aa0437f3449d652e8cbf22d5abe85d020f087")},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].type, type) == 0)
            return known[i].hash;
    return NULL;
}
