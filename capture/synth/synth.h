// SPDX-License-Identifier: Apache-2.0
// The synthetic recordings by name: a scene, a motion through it, and what befalls the camera on
// the way. The driver `synth` plays them, posed-synth writes them to disk, tests take poses and
// times from here.
#ifndef POSED_CAPTURE_SYNTH_SYNTH_H
#define POSED_CAPTURE_SYNTH_SYNTH_H

#include "capture/synth/motion.h"
#include "capture/synth/scene.h"
#include "proto/log.h"
#include "proto/types.h"

enum synth_event {
    SYNTH_EVENT_NONE,
    SYNTH_EVENT_COVERED,    // the lens is covered for n_event_frames; the hand comes to rest for it
    SYNTH_EVENT_GAP,        // the clock jumps by 2 s, the camera by 4 ordinary frames (4 cm, 4 deg)
    SYNTH_EVENT_DUPLICATES, // every third frame repeats its predecessor bit for bit (redkitchen)
};

struct synth_recording {
    const char *name, *summary;
    const char *scene; // of scene.h
    enum motion_kind motion;
    double speed;      // of the motion: 1 is a hand's
    uint32_t n_frames; // when nobody asks for another length
    enum synth_event event;
    uint32_t event_frame, n_event_frames; // first frame of the event; how many
};

// The table; ends with name NULL. synth_find returns NULL for an unknown name.
const struct synth_recording *synth_recordings(void);
const struct synth_recording *synth_find(const char *name);

// 30 frames a second, frame 0 at 0 s.
int64_t synth_time_ns(const struct synth_recording *recording, uint64_t frame);

// Exact pose of a frame.
struct se3 synth_pose(const struct synth_recording *recording, uint64_t frame);

bool synth_is_covered(const struct synth_recording *recording, uint64_t frame);

// Off unless asked for: a recording's poses do not depend on what it is not meant to test.
enum synth_accelerometer {
    SYNTH_ACCELEROMETER_NONE,
    SYNTH_ACCELEROMETER_GOOD,
    SYNTH_ACCELEROMETER_DEAD,   // zeros
    SYNTH_ACCELEROMETER_TURNED, // x and z the wrong way round
    SYNTH_ACCELEROMETER_BENT,   // 5 degrees off
};

// What may follow a recording's name in a location, for people.
#define SYNTH_OPTIONS                                                                    \
    "noise=on|off, sensor=kind|field|unkind|sparse, lens=said|own, camera=N, seed=N, "   \
    "frames=1..10000000, mount=X:Y:Z:RX:RY:RZ (m, degrees), cover=FROM:COUNT (frames), " \
    "accelerometer=off|on|dead|turned|bent"

// What a driver location says: NAME[,OPTION]..., of SYNTH_OPTIONS.
struct synth_request {
    const struct synth_recording *recording;
    bool noise; // false: no noise, edges and pixels all there; a field stays
    enum scene_sensor sensor;
    bool own_lens; // of the camera's own (sensor_error_lens); else what its intrinsics say
    enum synth_accelerometer accelerometer;
    uint64_t camera;   // which camera of that kind; without one in the location: the seed
    uint64_t seed;     // of what is new in each frame
    uint32_t n_frames; // 1..10,000,000
    // Where the camera sits on the body that the recording's motion moves: another one of a rig.
    bool is_mounted;
    struct se3 T_body_camera;
    uint32_t cover_frame, n_cover_frames; // the lens is covered, and the motion goes on
};

// The exact pose of a frame's camera in the scene.
struct se3 synth_camera_pose(const struct synth_request *request, uint64_t frame);

// The camera of a request, lens and sensor: takes the scene's. Returns 0 or -ENOMEM.
__attribute__((warn_unused_result)) int synth_set_sensor(const struct synth_request *request,
                                                         struct scene *scene);

// The stamp of a frame: synth_time_ns, and for a sensor that is not kind up to 4 ms off it (some
// 12 ms late), as clocks of such cameras are. The pose is the exact one all the same.
int64_t synth_stamp_ns(const struct synth_request *request, uint64_t frame);

// Reads a location over the defaults already in *request (seed and n_frames; 0 frames = the
// recording's own). Returns 0, -ENOENT for an unknown recording, -EINVAL for a bad option, with the
// reason in the log.
__attribute__((warn_unused_result)) int
synth_parse(const char *location, const struct log_sink *log, struct synth_request *request);

// Depth image of one frame of a request, in SCENE_UNITS_PER_M; the scene is that of the recording.
void synth_render(const struct synth_request *request, struct scene *scene, uint64_t frame,
                  uint16_t *out_depth);

// Which of the sensor's noises a frame gets; a repeated frame gets its predecessor's.
uint64_t synth_noise_frame(const struct synth_recording *recording, uint64_t frame);

#endif
