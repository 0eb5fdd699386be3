// SPDX-License-Identifier: Apache-2.0
// The table of keys and their defaults.
#include "daemon/config/settings_table.h"

#include <string.h>

#include "capture/ros/domain.h"
#include "gpu/model/pose_graph.h"

static const char *const backend_names[] = {"auto", "cpu", "cuda", NULL};
static const char *const isa_names[] = {"auto", "baseline", "avx2", "avx512", NULL};
static const char *const gpu_error_names[] = {"cpu", "rebuild", "stop", NULL};
static const char *const reference_names[] = {"previous", "keyframe", "model", NULL};
static const char *const trajectory_names[] = {"tum", "kitti", "covariance", NULL};
static const char *const poses_names[] = {"adjusted", "published", NULL};
static const char *const format_names[] = {"auto", "text", "journal", "json", NULL};
static const char *const level_names[] = {"",       "",     "",      "error", "warning",
                                          "notice", "info", "debug", NULL};

// What 0 means, where it is outside the range of a number.
static const char *const zero_is_none[] = {"none", NULL};
static const char *const zero_is_the_sources[] = {"what the source says of itself", NULL};
static const char *const zero_is_shown[] = {"what the images show", NULL};

#define AT(field) offsetof(struct config, field)

const struct config_key config_keys[] = {
    {"capture", "source", CONFIG_TEXT, AT(source), 0, 0, NULL, false,
     "Where frames come from, driver:location: tum:DIR, sevenscenes:DIR, synth:NAME, ...\n"
     "(posed --help lists the drivers)."},
    {"capture", "speed", CONFIG_SPEED, AT(capture.rate), CAPTURE_RATE_RANGE, NULL, false,
     "Replay: real (as recorded; a frame that comes too late is dropped and counted), a number of\n"
     "times that, or max (as fast as possible; nothing is dropped)."},
    {"capture", "loop", CONFIG_BOOL, AT(capture.loop), 0, 0, NULL, false,
     "Replay: start again at the end."},
    {"capture", "start_s", CONFIG_DOUBLE, AT(capture.start_s), CAPTURE_PART_S_RANGE, NULL, false,
     "Replay: skip this much of the recording [s]."},
    {"capture", "duration_s", CONFIG_DOUBLE, AT(capture.duration_s), CAPTURE_PART_S_RANGE, NULL,
     false, "Replay: stop after this much [s]; 0 = to the end."},
    {"capture", "step", CONFIG_UINT, AT(capture.step), 1, 1000000, NULL, false,
     "Replay: every step-th frame."},
    {"capture", "frames", CONFIG_UINT, AT(capture.n_frames), 0, 100000000, NULL, false,
     "End after so many frames (with loop: of each round); 0 = all there are."},
    {"capture", "seed", CONFIG_UINT64, AT(capture.seed), 0, 9007199254740992.0, NULL, false,
     "Synthetic scenes: seed of the noise."},
    {"capture", "allow_implausible", CONFIG_BOOL, AT(capture.allow_implausible), 0, 0, NULL, false,
     "Open a recording although its size, depth scale or intrinsics cannot be right."},

    {"camera", "fx", CONFIG_DOUBLE, AT(capture.fx_px), INTRINSICS_FOCAL_LENGTH_PX_RANGE,
     zero_is_the_sources, false,
     "Intrinsics [px]; 0 = what the source says of itself. fy may be negative (ICL-NUIM)."},
    {"camera", "fy", CONFIG_SIGNED, AT(capture.fy_px), INTRINSICS_FOCAL_LENGTH_PX_RANGE,
     zero_is_the_sources, false, NULL},
    {"camera", "cx", CONFIG_DOUBLE, AT(capture.cx_px), INTRINSICS_CENTRE_PX_RANGE, NULL, false,
     NULL},
    {"camera", "cy", CONFIG_DOUBLE, AT(capture.cy_px), INTRINSICS_CENTRE_PX_RANGE, NULL, false,
     NULL},
    {"camera", "depth_scale", CONFIG_DOUBLE, AT(capture.depth_scale), DEPTH_UNITS_PER_M_RANGE,
     zero_is_the_sources, false,
     "Depth units per metre (TUM 5000, millimetres 1000); 0 = what the source says of itself.\n"
     "Of images of floats (32FC1 of ROS) only how finely they are kept; their unit is "
     "float_scale."},
    {"camera", "float_scale", CONFIG_DOUBLE, AT(capture.float_scale), DEPTH_FLOAT_PER_M_RANGE,
     zero_is_shown, false,
     "Units per metre of 32FC1 images of ROS (metres 1, millimetres 1000); 0 = what they show,\n"
     "metres or millimetres."},
    {"camera", "field", CONFIG_TEXT, AT(camera_field), 0, 0, NULL, false,
     "File with the camera's own depth error, as posectl calibrate writes it; taken out of every\n"
     "frame. Refused for another camera. Empty = none."},
    {"camera", "rig", CONFIG_TEXT, AT(camera_rig), 0, 0, NULL, false,
     "In [camera NAME], of each camera but the first: where it sits beside the first, as posectl\n"
     "rig calibrate FIRST THIS -o FILE writes it. One pose of all is then told: topic rig. Fields\n"
     "that it wrote beside it (FILE.A.field, FILE.B.field) are taken where none is set.\n"
     "A section [camera NAME] for each of several cameras has its source and whatever else of\n"
     "[capture], [camera] and [gpu] is its own; up to 16, NAME of A-Z a-z 0-9 _ -."},

    {"gpu", "backend", CONFIG_ENUM, AT(backend), 0, 0, backend_names, false,
     "auto (CUDA when a device answers, else the CPU), cpu, cuda."},
    {"gpu", "on_error", CONFIG_ENUM, AT(on_gpu_error), 0, 0, gpu_error_names, false,
     "When the device fails: cpu (go on there), rebuild (open the device again, the CPU where\n"
     "it does not come back), stop (exit 5)."},
    {"gpu", "fail_every", CONFIG_UINT, AT(gpu_fail_every), 0, 1000000000, NULL, false,
     "To try on_error: every so many frames the device is taken to have failed; 0 = never."},
    {"gpu", "threads", CONFIG_UINT, AT(gpu.n_threads), GPU_THREADS_RANGE, NULL, false,
     "CPU backend: threads; 0 = all cores (of several cameras: each its share)."},
    {"gpu", "isa", CONFIG_ENUM, AT(gpu.isa), 0, 0, isa_names, false,
     "CPU backend: vector instructions of the tracker: auto (the widest), baseline, avx2 or "
     "avx512.\n"
     "Poses are the same bytes with avx2, avx512 and on arm64. On x86-64 baseline is for "
     "processors\n"
     "without FMA: the slowest, with other last digits. One that is not there: the next below."},
    {"gpu", "cuda_device", CONFIG_INT, AT(gpu.cuda_device), -1, 255, NULL, false,
     "CUDA backend: device number; -1 = the first that answers."},
    {"gpu", "depth_min_m", CONFIG_FLOAT, AT(gpu.depth_min_m), GPU_DEPTH_MIN_M_RANGE, NULL, false,
     "Depth outside this range is no measurement [m]."},
    {"gpu", "depth_max_m", CONFIG_FLOAT, AT(gpu.depth_max_m), GPU_DEPTH_MAX_M_RANGE, NULL, false,
     NULL},
    {"gpu", "bilateral_radius_px", CONFIG_UINT, AT(gpu.bilateral_radius_px),
     GPU_BILATERAL_RADIUS_PX_RANGE, NULL, false,
     "Bilateral filter: radius [px] (3 = 7x7; 0 = off), spatial sigma [px], and the difference in\n"
     "depth beyond which a neighbour counts nothing, in multiples of the sensor's noise there."},
    {"gpu", "bilateral_sigma_px", CONFIG_FLOAT, AT(gpu.bilateral_sigma_px),
     GPU_BILATERAL_SIGMA_PX_RANGE, NULL, false, NULL},
    {"gpu", "bilateral_cut_sigmas", CONFIG_FLOAT, AT(gpu.bilateral_cut_sigmas),
     GPU_BILATERAL_CUT_SIGMAS_RANGE, NULL, false, NULL},

    {"tracker", "reference", CONFIG_ENUM, AT(track.reference), 0, 0, reference_names, false,
     "What a frame is aligned to: keyframe, previous (frame to frame: a tenth faster, and a\n"
     "drift 1.5 to 4 times as large in most rooms), or model (a view of the map, and the keyframe\n"
     "where that covers too little)."},
    {"tracker", "iterations", CONFIG_LEVELS, AT(track.align.iterations), GPU_ITERATIONS_RANGE, NULL,
     false, "Iterations a level, fine to coarse; not 0 at all of them."},
    {"tracker", "early_stop", CONFIG_BOOL, AT(track.align.early_stop), 0, 0, NULL, false,
     "Leave a level when the step is negligible."},
    {"tracker", "adapt", CONFIG_BOOL, AT(adapt), 0, 0, NULL, false,
     "Where frames of a camera or of a recording in time come faster than they are worked on: "
     "less\n"
     "work on each (a coarser finest level, then no work on the map that the pose does not need)\n"
     "before any is dropped; poses say so (effort). false: they are dropped."},
    {"tracker", "gate_distance_m", CONFIG_FLOAT, AT(track.align.gate_distance_m),
     GPU_GATE_DISTANCE_M_RANGE, NULL, false,
     "Pairs farther apart are not associated [m], nor those whose normals differ by more\n"
     "than the angle [rad]."},
    {"tracker", "gate_angle_rad", CONFIG_FLOAT, AT(track.align.gate_angle_rad),
     GPU_GATE_ANGLE_RAD_RANGE, NULL, false, NULL},

    {"tracker", "min_valid_share", CONFIG_DOUBLE, AT(track.min_valid_share),
     TRACK_MIN_VALID_SHARE_RANGE, NULL, false,
     "When a frame is LOST. Fewer pixels with a normal than this share of all: no depth."},
    {"tracker", "min_pair_ratio", CONFIG_DOUBLE, AT(track.min_pair_ratio),
     TRACK_MIN_PAIR_RATIO_RANGE, NULL, false, "Fewer pairs per valid pixel: too little overlap."},
    {"tracker", "max_step_m", CONFIG_DOUBLE, AT(track.max_step_m), TRACK_MAX_STEP_M_RANGE, NULL,
     false, "A larger last step: not converged."},
    {"tracker", "max_residual_sigmas", CONFIG_DOUBLE, AT(track.max_residual_sigmas),
     TRACK_MAX_RESIDUAL_SIGMAS_RANGE, NULL, false,
     "A larger residual, in units of the sensor's noise: it does not fit."},
    {"tracker", "max_speed_m_s", CONFIG_DOUBLE, AT(track.max_speed_m_s), TRACK_MAX_SPEED_M_S_RANGE,
     NULL, false, "A faster motion is not believed."},
    {"tracker", "max_turn_rad_s", CONFIG_DOUBLE, AT(track.max_turn_rad_s),
     TRACK_MAX_TURN_RAD_S_RANGE, NULL, false, NULL},
    {"tracker", "restart_s", CONFIG_DOUBLE, AT(track.restart_s), TRACK_RESTART_S_RANGE, NULL, false,
     "Lost for so long although there is depth (five times, where keyframes or a map are there to "
     "be\n"
     "found in): start anew at the last pose, map epoch + 1."},
    {"tracker", "min_eigenvalue", CONFIG_DOUBLE, AT(track.min_eigenvalue),
     TRACK_MIN_EIGENVALUE_RANGE, NULL, false,
     "When a frame is DEGRADED. A direction with less than this share of the information, and the\n"
     "three that one flat surface leaves free (none with 0), is held\n"
     "to the prediction; it may move unseen by this (m) in a 30th of a second."},
    {"tracker", "hold_std_m", CONFIG_DOUBLE, AT(track.hold_std_m), TRACK_HOLD_STD_M_RANGE, NULL,
     false, NULL},
    {"tracker", "gravity", CONFIG_BOOL, AT(track.gravity), 0, 0, NULL, false,
     "Where the source has an accelerometer (a Kinect, accelerometer.txt of a TUM folder): it "
     "holds\n"
     "roll and pitch where the scene does not. One that does not turn as the camera does is left "
     "out."},
    {"tracker", "gap_s", CONFIG_DOUBLE, AT(track.gap_s), TRACK_GAP_S_RANGE, NULL, false,
     "Longer without a frame: nothing is predicted."},
    {"tracker", "still_m", CONFIG_DOUBLE, AT(track.still_m), TRACK_STILL_M_RANGE, NULL, false,
     "When the newest frame becomes the reference. Reference previous: motion since the reference\n"
     "that noise alone may fake."},
    {"tracker", "keyframe_distance", CONFIG_DOUBLE, AT(track.keyframe_distance),
     TRACK_KEYFRAME_DISTANCE_RANGE, NULL, false,
     "Reference keyframe: translation by the scene's distance, turn, share of its best overlap."},
    {"tracker", "keyframe_turn_rad", CONFIG_DOUBLE, AT(track.keyframe_turn_rad),
     TRACK_KEYFRAME_TURN_RAD_RANGE, NULL, false, NULL},
    {"tracker", "keyframe_overlap", CONFIG_DOUBLE, AT(track.keyframe_overlap),
     TRACK_KEYFRAME_OVERLAP_RANGE, NULL, false, NULL},

    {"map", "voxel_m", CONFIG_FLOAT, AT(map.voxel_m), MODEL_VOXEL_M_RANGE, NULL, false,
     "Edge of a voxel of the map [m]."},
    {"map", "memory_bytes", CONFIG_UINT64, AT(map.memory_bytes), MODEL_MEMORY_BYTES_RANGE, NULL,
     false,
     "Memory of the map's voxels on the device. Where it is full, blocks out of sight wait in the\n"
     "host's memory."},
    {"map", "far_bytes", CONFIG_UINT64, AT(map.far_bytes), MODEL_FAR_BYTES_RANGE, NULL, false,
     "The host's memory for them, taken as it is needed; where that is full, too, new places are "
     "no\n"
     "longer added. 0 = no block goes to the host."},
    {"map", "keyframes", CONFIG_UINT, AT(map_keyframes), GRAPH_KEYFRAMES_RANGE, zero_is_none, false,
     "So many keyframes (each with its depth image, 1 MB) are aligned to each other and "
     "adjusted\n"
     "beside the tracking, which takes most of the drift out where the camera returns: map -> "
     "odom\n"
     "moves, odom does not. The trajectory file has poses of the map then. A lost camera is looked "
     "for\n"
     "among them. 0 = none."},
    {"map", "folder", CONFIG_TEXT, AT(map_folder), 0, 0, NULL, false,
     "Folder of saved maps, NAME.map (posectl map); the daemon then keeps a map. Empty = none are\n"
     "saved or loaded."},

    {"output", "trajectory", CONFIG_TEXT, AT(trajectory), 0, 0, NULL, false,
     "File for the trajectory, one line per captured frame as it comes; empty = none. An earlier\n"
     "file of that name is kept, as NAME.1, NAME.2 ... The line of a frame that was lost, or\n"
     "predicted as it came too late or damaged, is a comment (#), as nothing was measured, and so\n"
     "is the one that tells where a map epoch begins; kitti, which has no comments, has the last\n"
     "or the predicted pose."},
    {"output", "trajectory_format", CONFIG_ENUM, AT(trajectory_format), 0, 0, trajectory_names,
     false,
     "tum (time, position, quaternion), kitti (the 3x4 matrix, without time) or covariance (tum's\n"
     "columns and 64 more: what each pose of odom may be off by, for posed-eval --nees)."},

    {"output", "trajectory_poses", CONFIG_ENUM, AT(trajectory_poses), 0, 0, poses_names, false,
     "adjusted: when the daemon ends, the file is replaced by one with the poses of the whole\n"
     "session as the map's keyframes finally lie; at the end of a recording they are all adjusted\n"
     "once more for that (some seconds, see posectl map optimise). published: each pose stays as\n"
     "it was known when it came, in the map as it lay then, not in odom as the topic pose has it.\n"
     "With covariances, which are of odom, it always does."},

    {"output", "map", CONFIG_TEXT, AT(map_output), 0, 0, NULL, false,
     "File for the map at the end, a new one: PLY, surface with normals; empty = none."},

    {"endpoints", "run_dir", CONFIG_TEXT, AT(endpoints.run_dir), 0, 0, NULL, false,
     "Folder of the ipc sockets. Empty = $RUNTIME_DIRECTORY (systemd), else /run/posed where that\n"
     "can be written, else $XDG_RUNTIME_DIR/posed, else /tmp/posed-UID."},
    {"endpoints", "group", CONFIG_TEXT, AT(endpoints.group), 0, 0, NULL, false,
     "Group that may connect to the ipc sockets (they are 0660); empty = the daemon's own."},
    {"endpoints", "pub", CONFIG_TEXT, AT(endpoints.pub), 0, 0, NULL, false,
     "Addresses of each socket, separated by spaces: ipc (a socket of that name in run_dir),\n"
     "tcp://ADDRESS:PORT. Empty = none. Beyond loopback a key file or insecure = true is needed."},
    {"endpoints", "latest", CONFIG_TEXT, AT(endpoints.latest), 0, 0, NULL, false, NULL},
    {"endpoints", "img", CONFIG_TEXT, AT(endpoints.img), 0, 0, NULL, false, NULL},
    {"endpoints", "req", CONFIG_TEXT, AT(endpoints.req), 0, 0, NULL, false, NULL},
    {"endpoints", "insecure", CONFIG_BOOL, AT(endpoints.insecure), 0, 0, NULL, false,
     "Allow addresses beyond loopback without CURVE (anybody who reaches them may read and\n"
     "command), and a secret key that others can read. The log says so at every start."},
    {"endpoints", "curve_secret_key_file", CONFIG_TEXT, AT(endpoints.curve_secret_key_file), 0, 0,
     NULL, false,
     "The daemon's CURVE secret key (40 characters Z85, file mode 0600: posectl keygen):\n"
     "tcp is then encrypted; ipc needs no key, there the file says who may connect."},
    {"endpoints", "curve_clients_file", CONFIG_TEXT, AT(endpoints.curve_clients_file), 0, 0, NULL,
     false,
     "Public keys of the clients that may connect, one a line; SIGHUP reads them again, and hangs\n"
     "up on who is no longer there. Empty = any that knows the daemon's public key."},
    {"endpoints", "max_connections", CONFIG_UINT, AT(endpoints.max_connections), 8, 10000, NULL,
     false,
     "Connections that each socket takes; three quarters of them from one user (ipc) or address\n"
     "(tcp)."},

    {"publish", "pub_hwm", CONFIG_UINT, AT(publish.pub_hwm), 1, 100000, NULL, false,
     "Messages kept for a subscriber that is slow, on pub and on img."},
    {"publish", "img_hwm", CONFIG_UINT, AT(publish.img_hwm), 1, 100, NULL, false, NULL},
    {"publish", "odom_frame", CONFIG_NAME, AT(publish.odom_frame), 0, 0, NULL, false,
     "Names of the frames in the messages."},
    {"publish", "camera_frame", CONFIG_NAME, AT(publish.camera_frame), 0, 0, NULL, false, NULL},
    {"publish", "wait_subscriber_s", CONFIG_DOUBLE, AT(publish.wait_subscriber_s), 0, 3600, NULL,
     false, "Before the first frame, wait at most this long for a subscriber of pose [s]."},

    {"requests", "queue", CONFIG_UINT, AT(requests.queue), 1, 1024, NULL, false,
     "Commands that may wait; one more is answered RESOURCE_EXHAUSTED, and so is a client that "
     "has\n"
     "as many waiting as places are free: one connection alone gets half of them, one user or "
     "address\n"
     "three quarters."},
    {"requests", "deadline_ms", CONFIG_UINT, AT(requests.deadline_ms), 1, 3600000, NULL, true,
     "Deadline of a request that names none [ms]."},
    {"requests", "max_deadline_ms", CONFIG_UINT, AT(requests.max_deadline_ms), 1, 86400000, NULL,
     false, "Longest deadline of a request [ms]; one that names a longer one has this."},
    {"requests", "history", CONFIG_UINT, AT(requests.history), 16, 10000000, NULL, false,
     "Frames whose poses are kept for GetPose and GetTrajectory (72 bytes each)."},

    {"requests", "keep_frames", CONFIG_UINT, AT(requests.keep_frames), 0, 1000, NULL, false,
     "Frames whose depth is kept for requests that name a frame (0.6 MB each at 640x480)."},
    {"requests", "max_points", CONFIG_UINT, AT(requests.max_points), 3, 5000000, NULL, false,
     "Points that a set of Register may have."},
    {"requests", "upload_max_bytes", CONFIG_UINT, AT(requests.upload_max_bytes), 131072, 1 << 30,
     NULL, false, "Longest request that carries points or images; all others have at most 64 KiB."},

    {"http", "port", CONFIG_UINT, AT(http.port), 0, 65535, NULL, false,
     "Port on 127.0.0.1 for the page, Foxglove and Lichtblick, and for /metrics (Prometheus),\n"
     "/healthz, /readyz, /v1/status and /v1/pose; 0 = none."},
    {"http", "control", CONFIG_BOOL, AT(http.control), 0, 0, NULL, false,
     "The page's buttons work: pause, step, seek, rate, reset, keyframe, record, search. Whoever\n"
     "has an account on this machine can then press them."},
    {"http", "origins", CONFIG_TEXT, AT(http.origins), 0, 0, NULL, false,
     "Web pages of other machines that may look (never press), separated by spaces:\n"
     "https://app.foxglove.dev. Programs and pages of this machine always may."},

    {"search", "folder", CONFIG_TEXT, AT(search.folder), 0, 0, NULL, false,
     "Folder where objects and their reference views are kept; empty = until the daemon ends."},
    {"search", "max_triangles", CONFIG_UINT, AT(search.max_triangles), 1, 10000000, NULL, false,
     "Triangles, and vertices, that an object may have."},
    {"search", "max_views", CONFIG_UINT, AT(search.max_views), 64, 1 << 24, NULL, false,
     "Reference views that all objects together may have (10 kB each; an object has 8192 unless\n"
     "the request says otherwise)."},

    {"recorder", "folder", CONFIG_TEXT, AT(recorder.folder), 0, 0, NULL, false,
     "Folder of recordings; empty = none can be made."},
    {"recorder", "format", CONFIG_NAME, AT(recorder.format), 0, 0, NULL, false,
     "Format of a recording that names none: tum, klg, fakenect, mcap, ros2mcap."},
    {"recorder", "start", CONFIG_TEXT, AT(recorder.start), 0, 0, NULL, false,
     "Name of a recording that begins with the daemon; empty = none. Nothing is written over: "
     "where\n"
     "NAME is taken, at the second start, it is NAME-2, then NAME-3 and so on."},
    {"recorder", "queue_frames", CONFIG_UINT, AT(recorder.queue_frames), 2, 300, NULL, false,
     "Frames of each camera that may wait for the disk; more are dropped from the recording and\n"
     "counted, or with --speed max read when there is room. Memory for them is taken at the\n"
     "start, when there is a folder."},
    {"recorder", "max_bytes", CONFIG_UINT64, AT(recorder.max_bytes), 0, 9007199254740992.0, NULL,
     false, "A recording is stopped before it exceeds these; 0 = no limit."},
    {"recorder", "max_duration_s", CONFIG_DOUBLE, AT(recorder.max_duration_s), 0, 1e9, NULL, false,
     NULL},
    {"recorder", "keep_bytes", CONFIG_UINT64, AT(recorder.keep_bytes), 0, 9007199254740992.0, NULL,
     false,
     "When one starts, the oldest recordings beyond this size of the folder and beyond this\n"
     "age are deleted; 0 = never. A folder with anything in it that the recorder does not write\n"
     "(rgb/, groundtruth.txt, other names) stays and does not count. A file counts by its name:\n"
     "a .klg or .mcap from elsewhere does not belong in this folder."},
    {"recorder", "keep_age_s", CONFIG_DOUBLE, AT(recorder.keep_age_s), 0, 1e12, NULL, false, NULL},

    {"ros", "publish", CONFIG_BOOL, AT(ros.publish), 0, 0, NULL, false,
     "Publish odom, tf and diagnostics for ROS 2, over DDS, and the depth images on posed/depth\n"
     "while somebody subscribes; of several cameras on NAME/odom and posed/NAME/depth."},
    {"ros", "domain", CONFIG_INT, AT(ros.domain), ROS_DOMAIN_OF_ENVIRONMENT, ROS_MAX_DOMAIN, NULL,
     false,
     "ROS 2's domain, of this and of the source ros2:TOPIC; -1 = ROS_DOMAIN_ID of the "
     "environment,\n"
     "as with ROS's own programs, or 0 where that is not set; the log tells which it is. And the\n"
     "network interface; empty = as ROS_LOCALHOST_ONLY, ROS_AUTOMATIC_DISCOVERY_RANGE and\n"
     "CYCLONEDDS_URI of the environment say, or the library's choice."},
    {"ros", "interface", CONFIG_TEXT, AT(ros.interface), 0, 0, NULL, false, NULL},
    {"ros", "namespace", CONFIG_NAME, AT(ros.topic_namespace), 0, 0, NULL, false,
     "In front of all topics, as a node's namespace: robot1 publishes robot1/odom, robot1/tf. Of\n"
     "several daemons on one domain each has its own."},
    {"ros", "map_frame", CONFIG_NAME, AT(ros.map_frame), 0, 0, NULL, false,
     "Names of the frames (REP 105). map_frame: of the map of the keyframes, in which tf has odom\n"
     "with each pose; empty = tf has none, as where another program says where odom is."},
    {"ros", "odom_frame", CONFIG_NAME, AT(ros.odom_frame), 0, 0, NULL, false, NULL},
    {"ros", "base_frame", CONFIG_NAME, AT(ros.base_frame), 0, 0, NULL, false, NULL},
    {"ros", "optical_frame", CONFIG_NAME, AT(ros.optical_frame), 0, 0, NULL, false, NULL},
    {"ros", "camera_in_base", CONFIG_TEXT, AT(ros.camera_in_base), 0, 0, NULL, false,
     "Where the camera (of several the first) sits on the base: x y z [m] roll pitch yaw [rad] of\n"
     "its body, x forward, y left, z up."},

    {"log", "level", CONFIG_ENUM, AT(log.level), 0, 0, level_names, true,
     "error, warning, notice, info, debug."},
    {"log", "format", CONFIG_ENUM, AT(log.format), 0, 0, format_names, true,
     "auto (journal under systemd, else text), text, journal (<level> prefixes), json. It holds\n"
     "for lines of a wrong configuration, too; a wrong command line is told as text."},
    {"log", "rate_hz", CONFIG_UINT, AT(log.rate_hz), 0, 100000, NULL, true,
     "Lines a second and level; what exceeds it is counted and left out. 0 = no limit."},
};

#define N_KEYS (sizeof config_keys / sizeof config_keys[0])
_Static_assert(N_KEYS <= CONFIG_MAX_KEYS, "enlarge CONFIG_MAX_KEYS");

void config_default(struct config *out)
{
    *out = (struct config){
        .source = "synth:room",
        .capture = {.rate = CAPTURE_RATE_REAL, .step = 1, .seed = CAPTURE_SEED},
        .backend = GPU_BACKEND_AUTO,
        .adapt = true,
        .endpoints = {.pub = "ipc tcp://127.0.0.1:5570",
                      .latest = "ipc tcp://127.0.0.1:5571",
                      .img = "ipc tcp://127.0.0.1:5572",
                      .req = "ipc tcp://127.0.0.1:5573",
                      .max_connections = 256},
        .publish = {.pub_hwm = 1000, .img_hwm = 2, .odom_frame = "odom", .camera_frame = "camera"},
        .requests = {.queue = 32,
                     .deadline_ms = 5000,
                     .max_deadline_ms = 600000,
                     .history = 36000,
                     .keep_frames = 30,
                     .max_points = 200000,
                     .upload_max_bytes = 64 << 20},
        .http = {.port = CONFIG_HTTP_PORT},
        .search = {.max_triangles = 2000000, .max_views = 65536},
        .recorder = {.format = "tum", .queue_frames = 30},
        .ros = {.domain = ROS_DOMAIN_OF_ENVIRONMENT,
                .map_frame = "map",
                .odom_frame = "odom",
                .base_frame = "base_link",
                .optical_frame = "camera_depth_optical_frame",
                .camera_in_base = "0 0 0 0 0 0"},
        .log = {.level = LOG_LEVEL_INFO, .format = CONFIG_LOG_AUTO, .rate_hz = 50},
    };
    gpu_settings_default(&out->gpu);
    track_settings_default(&out->track);
    model_settings_default(&out->map);
    out->map_keyframes = 96;
    for (size_t i = 0; i < N_KEYS; i++)
        snprintf(out->origin[i], sizeof out->origin[i], CONFIG_BUILT_IN);
}

size_t config_find_key(const char *full_name)
{
    const char *dot = strchr(full_name, '.');
    size_t n_section = dot ? (size_t)(dot - full_name) : 0;
    for (size_t i = 0; i < N_KEYS && dot; i++)
        if (strlen(config_keys[i].section) == n_section &&
            memcmp(config_keys[i].section, full_name, n_section) == 0 &&
            strcmp(config_keys[i].name, dot + 1) == 0)
            return i;
    return N_KEYS;
}

bool config_is_live(const char *name)
{
    size_t i = config_find_key(name);
    return i < N_KEYS && config_keys[i].live;
}

size_t config_n_keys(void)
{
    return N_KEYS;
}

void config_key_name(size_t key, char *out, size_t size_bytes)
{
    snprintf(out, size_bytes, "%s.%s", config_keys[key].section, config_keys[key].name);
}
