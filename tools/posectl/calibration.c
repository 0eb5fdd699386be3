// SPDX-License-Identifier: Apache-2.0
// posectl calibration: the camera as the running posed takes it to be.
#include <string.h>

#include "tools/posectl/posectl.h"

static posed_Reply reply;

// The file has the form of the calibration.txt that every folder of images takes.
static void print(FILE *file, const posed_CameraCalibration *c, bool for_file)
{
    if (for_file) {
        fprintf(file, "%.17g %.17g %.17g %.17g %u %u %.17g\n", c->K[0], c->K[4], c->K[2], c->K[5],
                c->width, c->height, c->units_per_m);
        return;
    }
    fprintf(file, "%-11s %u x %u pixels\n", "size", c->width, c->height);
    fprintf(file, "%-11s fx %.9g, fy %.9g, cx %.9g, cy %.9g\n", "intrinsics", c->K[0], c->K[4],
            c->K[2], c->K[5]);
    fprintf(file, "%-11s %g units per metre\n", "depth", c->units_per_m);
    if (c->field_rms_per_m > 0)
        fprintf(file,
                "%-11s taken out: %.3g 1/m (RMS in inverse depth), %.0f %% less residual%s%s\n",
                "own error", c->field_rms_per_m, 100 * c->field_reduction,
                c->field_serial[0] ? ", learnt from camera " : "", c->field_serial);
    else
        fprintf(file, "%-11s not known (posectl calibrate learns it)\n", "own error");
}

int posectl_calibration(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = posectl_option,
        .children = posectl_common,
        .doc =
            "Shows the camera as the running posed takes it to be: size, intrinsics, depth unit. "
            "-o FILE writes a calibration.txt for a folder of images."};
    posed_Request request = posed_Request_init_zero;
    ctl->takes_file = true;
    posectl_parse(ctl, &argp, argc, argv);
    request.which_what = posed_Request_get_calibration_tag;
    enum posectl_exit result = posectl_request(ctl, &request, &reply);
    if (result)
        return (int)result;
    const posed_CameraCalibration *c = &reply.what.get_calibration;
    if (c->K_count != 9) {
        posectl_complain("the daemon sent no calibration");
        return POSECTL_FAILED;
    }
    FILE *file = posectl_open(ctl);
    if (!file)
        return POSECTL_FAILED;
    if (ctl->json)
        posectl_print_json(file, wire_json_calibration(c), false);
    else
        print(file, c, ctl->file != NULL);
    enum posectl_exit closed = posectl_close(ctl, file);
    if (!closed && ctl->file && !ctl->json)
        posectl_complain("%s: %u x %u pixels, %g units per metre", ctl->file, c->width, c->height,
                         c->units_per_m);
    return (int)closed;
}
