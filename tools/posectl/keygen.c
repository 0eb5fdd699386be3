// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/keygen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zmq.h>

#define KEY_BYTES  (POSECTL_KEY_CHARS + 1)
#define PATH_BYTES 512

struct keygen {
    struct posectl *ctl;
    const char *name;
};

// Whether files of that name are no hidden ones of a folder.
static bool is_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return name[strspn(name, ".")] != 0;
}

static error_t on_option(int key, char *arg, struct argp_state *state)
{
    struct keygen *keygen = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = keygen->ctl;
        return 0;
    case ARGP_KEY_ARG:
        if (keygen->name)
            argp_error(state, "one NAME is wanted");
        if (!is_name(arg))
            argp_error(state, "'%s': a NAME for the files is wanted, NAME.secret and NAME.public",
                       arg);
        keygen->name = arg;
        return 0;
    case ARGP_KEY_END:
        if (!keygen->name)
            argp_error(state, "a NAME is wanted: NAME.secret and NAME.public will be made");
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

// A new file with one line. What was there before stays.
static bool make_file(const char *path, const char *line, mode_t mode)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    size_t n = strlen(line);
    bool ok = fd >= 0 && fchmod(fd, mode) == 0 && write(fd, line, n) == (ssize_t)n &&
              write(fd, "\n", 1) == 1 && fsync(fd) == 0;
    if (!ok)
        posectl_complain("%s: %s", path, strerror(errno));
    if (fd >= 0 && close(fd) != 0 && ok) {
        posectl_complain("%s: %s", path, strerror(errno));
        ok = false;
    }
    if (!ok && fd >= 0)
        unlink(path);
    return ok;
}

static void explain(const char *secret, const char *public, const char *public_key)
{
    printf("%s  keep it: nobody else may read it\n"
           "%s  %s\n\n"
           "For a daemon: install the secret key where its user alone reads it, and set\n"
           "  [endpoints]\n"
           "  curve_secret_key_file = /etc/posed/%s      (chown posed, chmod 600)\n"
           "  curve_clients_file = /etc/posed/clients    (public keys, one a line)\n"
           "and give its clients the public key:\n"
           "  posectl --server-key '%s' --key-file THEIR.secret status -e HOST\n"
           "For a client: keep the secret key, and add the public one to the daemon's clients.\n",
           secret, public, public_key, strrchr(secret, '/') ? strrchr(secret, '/') + 1 : secret,
           public_key);
}

int posectl_keygen(struct posectl *ctl, int argc, char **argv)
{
    static const struct argp argp = {
        .parser = on_option,
        .args_doc = "NAME",
        .doc = "Makes a pair of CURVE keys, NAME.secret (which its owner alone can read) and "
               "NAME.public, and says what goes where.",
        .children = posectl_common};
    struct keygen keygen = {.ctl = ctl};
    char public_key[KEY_BYTES], secret_key[KEY_BYTES], public[PATH_BYTES], secret[PATH_BYTES];
    static char name[] = "posectl keygen";
    argv[0] = name;
    argp_err_exit_status = POSECTL_USAGE;
    argp_parse(&argp, argc, argv, 0, NULL, &keygen);
    if (strlen(keygen.name) > PATH_BYTES - 8) {
        posectl_complain("the name is too long");
        return POSECTL_USAGE;
    }
    snprintf(public, sizeof public, "%s.public", keygen.name);
    snprintf(secret, sizeof secret, "%s.secret", keygen.name);
    if (zmq_curve_keypair(public_key, secret_key) != 0) {
        posectl_complain("CURVE: %s", zmq_strerror(zmq_errno()));
        return POSECTL_FAILED;
    }
    bool ok = make_file(secret, secret_key, 0600);
    explicit_bzero(secret_key, sizeof secret_key);
    if (ok && !make_file(public, public_key, 0644)) {
        unlink(secret);
        ok = false;
    }
    if (!ok)
        return POSECTL_FAILED;
    explain(secret, public, public_key);
    return (int)posectl_close(ctl, stdout);
}
