// SPDX-License-Identifier: Apache-2.0
// A finding is fine, a note (posed runs, but you may miss something) or a problem, and a problem
// comes with what to do. A Kinect is looked for in sysfs, not through libfreenect: that works
// without permissions, which is what is most often missing. A video device has to be opened.
#include "tools/posectl/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "capture/capture.h"
#include "capture/recorder/recorder.h"
#include "gpu/gpu.h"
#include "proto/clock.h"
#include "tools/client/address.h"
#include "tools/client/greeting.h"
#include "tools/posectl/daemon_settings.h"

#define USUAL_PAGE_PORT 8765 // of http.port
#define LISTEN_MS       500  // for who listens to say so
#define ASK_MS          1000 // for a daemon to answer

enum verdict { FINE, NOTE, PROBLEM };

static const char *const verdict_names[] = {"ok", "note", "problem"};

struct doctor {
    bool json;
    json_t *findings;
    int n_problems;
};

struct doctor_options {
    struct posectl *ctl;
    const char *usb, *recordings, *config;
};

// One finding; `advice` is NULL when there is nothing to do.
__attribute__((format(printf, 5, 6))) static void find(struct doctor *doctor, enum verdict verdict,
                                                       const char *subject, const char *advice,
                                                       const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    doctor->n_problems += verdict == PROBLEM;
    if (doctor->json) {
        json_array_append_new(doctor->findings,
                              json_pack("{s:s, s:s, s:s, s:s*}", "subject", subject, "verdict",
                                        verdict_names[verdict], "finding", text, "advice", advice));
        return;
    }
    printf("%-9s %-8s %s\n", subject, verdict_names[verdict], text);
    if (advice)
        printf("%-18s -> %s\n", "", advice);
}

// First line of a file in sysfs or proc, "" when there is none.
static void read_line(const char *folder, const char *name, char out[64])
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "r");
    if (!file || !fgets(out, 64, file))
        out[0] = '\0';
    if (file)
        fclose(file);
    out[strcspn(out, "\n")] = '\0';
}

static const struct {
    const char *product, *name;
    bool camera;
} kinect_parts[] = {
    {"02ae", "Kinect v1 camera (Xbox 360, model 1414 or 1473)", true},
    {"02bf", "Kinect v1 camera (Kinect for Windows)", true},
    {"02b0", "Kinect v1 motor and accelerometer", false},
    {"02c2", "Kinect v1 hub (Kinect for Windows)", false},
};

#define UDEV_ADVICE                                                                         \
    "install config/60-posed-kinect.rules to /etc/udev/rules.d, run `sudo udevadm control " \
    "--reload`, plug the camera in again, and be in group plugdev"

#define NODE_ADVICE \
    "a container has to be given the USB devices: docker run --device /dev/bus/usb ..."

static void look_at_camera(struct doctor *doctor, const char *folder, const char *name)
{
    char bus[64], device[64], serial[64], node[600];
    read_line(folder, "busnum", bus);
    read_line(folder, "devnum", device);
    read_line(folder, "serial", serial);
    if (!serial[0])
        strcpy(serial, "unknown");
    snprintf(node, sizeof node, "/dev/bus/usb/%03d/%03d", atoi(bus), atoi(device));
    if (access(node, R_OK | W_OK) == 0)
        find(doctor, FINE, "camera", NULL, "%s, serial %s, %s", name, serial, node);
    else
        find(doctor, PROBLEM, "camera", errno == ENOENT ? NODE_ADVICE : UDEV_ADVICE,
             "%s, serial %s: %s: %s", name, serial, node, strerror(errno));
}

// What has no permission may be a webcam: that is no problem yet.
static void keep_video(void *user, enum log_level level, const char *line)
{
    if (level == LOG_LEVEL_INFO)
        find(user, FINE, "camera", NULL, "%s", line);
    else
        find(user, NOTE, "camera",
             "if this is the depth camera: sudo usermod -aG video $USER, log in again; no other "
             "program may use it",
             "%s", line);
}

static void look_for_cameras(struct doctor *doctor, const char *usb)
{
    const int n_video = capture_look("v4l2", &(struct log_sink){keep_video, doctor});
    int n_cameras = 0, n_parts = 0;
    DIR *dir = opendir(usb);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char folder[512], vendor[64], product[64];
        snprintf(folder, sizeof folder, "%s/%s", usb, entry->d_name);
        read_line(folder, "idVendor", vendor);
        read_line(folder, "idProduct", product);
        for (size_t i = 0; i < sizeof kinect_parts / sizeof *kinect_parts; i++)
            if (!strcmp(vendor, "045e") && !strcmp(product, kinect_parts[i].product)) {
                n_parts++;
                n_cameras += kinect_parts[i].camera;
                if (kinect_parts[i].camera)
                    look_at_camera(doctor, folder, kinect_parts[i].name);
            }
    }
    if (!dir)
        find(doctor, NOTE, "camera",
             "no USB in this container or virtual machine? recordings work without: posed --source "
             "synth:room",
             "cameras cannot be looked for: %s: %s", usb, strerror(errno));
    else if (n_parts && !n_cameras)
        find(doctor, PROBLEM, "camera", "plug the power supply of the Kinect in; USB is not enough",
             "a Kinect's motor or hub answers, its camera does not");
    else if (!n_cameras && n_video <= 0)
        find(doctor, NOTE, "camera", "recordings work without one: posed --source synth:room",
             "no Kinect v1 is plugged in, and no video device has depth (Z16)");
    if (dir)
        closedir(dir);
    if (!access("/sys/module/gspca_kinect", F_OK))
        find(
            doctor, PROBLEM, "camera",
            "sudo modprobe -r gspca_kinect; to keep it out: echo blacklist gspca_kinect | sudo tee "
            "/etc/modprobe.d/posed.conf",
            "the kernel's webcam driver gspca_kinect takes the camera");
}

static void look_at_build(struct doctor *doctor)
{
    char drivers[300] = "", formats[100] = "", libraries[100] = "", advice[100];
    for (const struct capture_driver_name *driver = capture_drivers(); driver->name; driver++) {
        size_t n = strlen(drivers);
        snprintf(drivers + n, sizeof drivers - n, " %s", driver->name);
    }
    for (int i = 0; i < RECORDER_N_FORMATS; i++) {
        size_t n = strlen(formats);
        snprintf(formats + n, sizeof formats - n, " %s",
                 recorder_format_name((enum recorder_format)i));
    }
    for (const struct capture_library *library = capture_libraries(); library->name; library++) {
        size_t n = strlen(libraries);
        if (library->built_in)
            snprintf(libraries + n, sizeof libraries - n, " %s", library->name);
    }
    find(doctor, FINE, "build", NULL, "sources:%s; recorder:%s; optional libraries:%s", drivers,
         formats, libraries[0] ? libraries : " none");
    for (const struct capture_library *library = capture_libraries(); library->name; library++)
        if (!library->built_in) {
            snprintf(advice, sizeof advice,
                     library->option ? "install the package %s-dev, and build with -D%s=ON"
                                     : "tools/packages install build, and build again",
                     library->name, library->option);
            find(doctor, NOTE, "build", advice, "built without %s: %s", library->name,
                 library->without);
        }
}

// The first line: what comes after it only follows from it.
static void keep_line(void *user, enum log_level level, const char *line)
{
    char *why = user;
    if (level <= LOG_LEVEL_INFO && !why[0])
        snprintf(why, 300, "%s", line);
}

static void look_at_device(struct doctor *doctor)
{
    struct gpu_settings settings;
    struct gpu *gpu;
    char why[300] = "";
    gpu_settings_default(&settings);
    settings.camera = (struct intrinsics){525, 525, 319.5, 239.5, 640, 480};
    settings.units_per_m = 1000;
    settings.log = (struct log_sink){keep_line, why};
    int err = gpu_open(&gpu, GPU_BACKEND_CUDA, &settings);
    if (err == 0)
        find(doctor, FINE, "compute", NULL, "%s", gpu_description(gpu));
    else if (err == -ENOTSUP)
        find(doctor, NOTE, "compute", "the CPU keeps camera rate; for CUDA: -DPOSED_CUDA=ON",
             "built without CUDA");
    else
        find(doctor, access("/dev/nvidia0", F_OK) ? NOTE : PROBLEM, "compute",
             access("/dev/nvidia0", F_OK) ? "no NVIDIA driver is loaded; the CPU keeps camera rate"
                                          : "look at nvidia-smi, and at the rights of /dev/nvidia*",
             "%s", why[0] ? why : strerror(-err));
    if (err == 0)
        gpu_close(&gpu);
    why[0] = '\0';
    err = gpu_open(&gpu, GPU_BACKEND_CPU, &settings);
    if (err) {
        find(doctor, PROBLEM, "compute", "free some memory", "the CPU backend does not open: %s",
             why[0] ? why : strerror(-err));
        return;
    }
    find(doctor, FINE, "compute", NULL, "%s", gpu_description(gpu));
    gpu_close(&gpu);
}

static void look_at_clock(struct doctor *doctor)
{
    const struct timespec now = clock_timespec(clock_wall_ns());
    struct timex state = {0};
    struct tm utc;
    char text[64];
    gmtime_r(&now.tv_sec, &utc);
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
    if (utc.tm_year + 1900 < 2024)
        find(doctor, PROBLEM, "clock", "set the clock: sudo timedatectl set-ntp true",
             "%s cannot be right; frames of a camera carry this time", text);
    else if (adjtimex(&state) < 0 || state.status & STA_UNSYNC)
        find(doctor, NOTE, "clock", "sudo timedatectl set-ntp true",
             "%s, not synchronised: times of live frames fit this machine only", text);
    else
        find(doctor, FINE, "clock", NULL, "%s, synchronised", text);
}

// The port of the first tcp address among these; 0: none, or any.
static uint16_t port_of(const char *addresses)
{
    const char *tcp = strstr(addresses, "tcp://"), *colon = NULL;
    for (const char *c = tcp; c && *c && *c != ' ' && *c != ','; c++)
        colon = *c == ':' ? c : colon;
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

static int try_port(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    int err = fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof address) ? errno : 0;
    if (fd >= 0)
        close(fd);
    return err;
}

static void look_at_port(struct doctor *doctor, const char *name, uint16_t port, bool is_running)
{
    char address[64];
    const int err = port ? try_port(port) : 0;
    const bool is_page = strcmp(name, "page") == 0;
    snprintf(address, sizeof address, "tcp://127.0.0.1:%u", port);
    if (!port)
        return;
    if (!err)
        find(doctor, FINE, "ports", NULL, "127.0.0.1:%u (%s) is free", port, name);
    else if (err == EADDRINUSE && (is_page ? is_running : greeting_is_zeromq(address, LISTEN_MS)))
        find(doctor, FINE, "ports", NULL,
             "127.0.0.1:%u (%s) answers: posed is running (posectl %s)", port, name,
             is_page ? "view" : "status");
    else if (is_page)
        find(doctor, port == USUAL_PAGE_PORT ? NOTE : PROBLEM, "ports",
             "`sudo ss -ltnp` shows by which program; end it, or choose another http.port. Without "
             "its page posed starts at the usual port alone",
             "127.0.0.1:%u (page): %s, by another program or another posed", port, strerror(err));
    else
        find(doctor, PROBLEM, "ports",
             "`sudo ss -ltnp` shows by which program; end it, or choose another port in "
             "posed.conf, [endpoints]",
             "127.0.0.1:%u (%s): %s, and not by posed", port, name, strerror(err));
}

static void look_at_ports(struct doctor *doctor, const struct daemon_settings *settings,
                          bool is_running)
{
    const struct {
        const char *name;
        uint16_t port;
    } ports[] = {{"pub", port_of(settings->pub)},
                 {"latest", port_of(settings->latest)},
                 {"img", port_of(settings->img)},
                 {"req", port_of(settings->req)},
                 {"page", (uint16_t)strtoul(settings->http_port, NULL, 10)}};
    for (size_t i = 0; i < sizeof ports / sizeof *ports; i++)
        look_at_port(doctor, ports[i].name, ports[i].port, is_running);
}

static bool is_here(const char *address)
{
    return strncmp(address, "ipc://", 6) == 0 || strncmp(address, "tcp://127.", 10) == 0 ||
           strncmp(address, "tcp://localhost:", 16) == 0;
}

// The daemon that every command would ask: --host, POSED_HOST, or the one of this machine. Returns
// whether it is on this machine and has told its settings.
static bool look_at_daemon(struct doctor *doctor, const struct posectl *ctl,
                           struct daemon_settings *out)
{
    char address[ADDRESS_MAX];
    address_find(ctl->endpoint, ADDRESS_REQ, address);
    const char *named = ctl->endpoint ? "--host" : getenv("POSED_HOST");
    int error = address_probe(address, ctl->timeout_ms);
    const bool is_zeromq = error == 0 && greeting_is_zeromq(address, LISTEN_MS);
    struct posectl brief = *ctl;
    if (!ctl->has_timeout)
        brief.timeout_ms = ASK_MS;
    if (is_zeromq && daemon_settings_ask(&brief, out) == POSECTL_OK) {
        find(doctor, FINE, "daemon", NULL, "answers at %s", address);
        return is_here(address);
    }
    if (error == 0)
        find(doctor, PROBLEM, "daemon",
             is_zeromq ? "what posectl said on standard error"
                       : "`sudo ss -ltnp` shows which program that is",
             is_zeromq ? "%s does not answer" : "another program than posed listens at %s",
             address);
    else if (named && named[0])
        find(doctor, PROBLEM, "daemon",
             "start it there, or mend --host or POSED_HOST; over a network it needs CURVE keys or "
             "ssh -L (OPERATIONS.md)",
             "none at %s: %s", address,
             error > 0 ? strerror(error) : "no address that can be reached");
    else
        find(doctor, NOTE, "daemon", "posed --source synth:room --loop starts one",
             "none is running here (%s)", address);
    return false;
}

// Those of the daemon here, else those with which it would start, else the usual ports. A file that
// is named has to be one that posed takes; the usual one may name keys that the daemon alone reads.
static void find_settings(struct doctor *doctor, const char *config, struct daemon_settings *out)
{
    char why[DAEMON_SETTINGS_TEXT];
    const bool is_refused = config && !daemon_settings_check(config, why);
    if (is_refused)
        find(doctor, PROBLEM, "settings",
             "posed --check-config -c FILE, as the user of the daemon, says all that is wrong",
             "%s", why[0] ? why : "posed --check-config refuses the file");
    if (daemon_settings_read(config, out, why))
        return;
    if (!is_refused)
        find(doctor, why[0] ? PROBLEM : NOTE, "settings",
             why[0] ? "posed --check-config says all that is wrong"
                    : "put the program posed on PATH",
             "%s",
             why[0] ? why : "no posed is here to say which they are: the usual ports are tried");
    *out = (struct daemon_settings){"tcp://127.0.0.1:5570",
                                    "tcp://127.0.0.1:5571",
                                    "tcp://127.0.0.1:5572",
                                    "tcp://127.0.0.1:5573",
                                    "8765",
                                    ""};
}

// is_running: the folder is a daemon's, who may write where we may not.
static void look_at_disk(struct doctor *doctor, const char *folder, bool is_running)
{
    struct statvfs disk;
    struct stat entry;
    if (!folder[0]) {
        find(doctor, NOTE, "disk",
             "to record, set recorder.folder in posed.conf; --recordings FOLDER looks at one",
             "recorder.folder is not set: no recording can be made");
        return;
    }
    if (stat(folder, &entry) || statvfs(folder, &disk)) {
        find(doctor, PROBLEM, "disk", "create the folder (mkdir -p), or name another", "%s: %s",
             folder, strerror(errno));
        return;
    }
    if (!S_ISDIR(entry.st_mode)) {
        find(doctor, PROBLEM, "disk", "name a folder for recordings", "%s is not a folder", folder);
        return;
    }
    double free_gb = (double)disk.f_bavail * (double)disk.f_frsize * 1e-9;
    // 30 frames/s of 113 kB: what the recorder writes of a Kinect as a TUM folder
    double minutes = free_gb * 1e9 / (30 * 113e3 * 60);
    if (access(folder, W_OK) && !is_running)
        find(doctor, PROBLEM, "disk", "change its owner, or name another folder",
             "%s cannot be written: %s", folder, strerror(errno));
    else
        find(doctor, free_gb < 1 ? NOTE : FINE, "disk",
             free_gb < 1 ? "a recording stops when the disk is full" : NULL,
             "%s: %.1f GB free, about %.0f minutes of recording", folder, free_gb, minutes);
}

enum { OPTION_USB = 2000, OPTION_RECORDINGS };

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct doctor_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = options->ctl;
        return 0;
    case 'c':
        options->config = arg;
        return 0;
    case OPTION_USB:
        options->usb = arg;
        return 0;
    case OPTION_RECORDINGS:
        options->recordings = arg;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

int posectl_doctor(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp_option argp_options[] = {
        {"config", 'c', "FILE", 0,
         "The settings that a posed is to have, as its own -c (default: those of the one that runs "
         "here, else of /etc/posed/posed.conf)",
         0},
        {"recordings", OPTION_RECORDINGS, "FOLDER", 0,
         "Where recordings are to go (default: recorder.folder)", 0},
        {"usb", OPTION_USB, "FOLDER", 0, "Look for cameras here (default /sys/bus/usb/devices)", 0},
        {0}};
    static const struct argp argp = {
        .options = argp_options,
        .parser = on_option,
        .children = posectl_common,
        .doc =
            "Looks at this machine: cameras and permissions, what was built in, compute devices, "
            "clock, the daemon, its ports and the disk of its recordings. Says what to do about "
            "each problem. Exits 1 when "
            "there is one."};
    struct doctor_options options = {ctl, "/sys/bus/usb/devices", NULL, NULL};
    static char name[] = "posectl doctor";
    argv[0] = name;
    argp_err_exit_status = POSECTL_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &options);
    struct doctor doctor = {.json = ctl->json, .findings = ctl->json ? json_array() : NULL};
    look_for_cameras(&doctor, options.usb);
    look_at_build(&doctor);
    look_at_device(&doctor);
    look_at_clock(&doctor);
    struct daemon_settings settings;
    bool is_running = look_at_daemon(&doctor, ctl, &settings) && !options.config;
    if (!is_running)
        find_settings(&doctor, options.config, &settings);
    look_at_ports(&doctor, &settings, is_running);
    look_at_disk(&doctor, options.recordings ? options.recordings : settings.recorder_folder,
                 is_running && !options.recordings);
    if (doctor.json)
        posectl_print_json(
            stdout,
            json_pack("{s:i, s:o}", "problems", doctor.n_problems, "findings", doctor.findings),
            false);
    enum posectl_exit result = posectl_close(ctl, stdout);
    return result ? (int)result : doctor.n_problems ? POSECTL_FAILED : POSECTL_OK;
}
