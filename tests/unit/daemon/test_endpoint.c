// SPDX-License-Identifier: Apache-2.0
// Where the sockets are: the run directory and its lock, key files, addresses that can be bound and
// such that cannot, each refusal with what is wrong.
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/endpoint.h"
#include "daemon/run_dir.h"
#include "tests/unit/fails.h"
#include "tests/unit/scratch.h"

#define SECRET "JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh6" // of the ZMTP CURVE specification
#define CLIENT "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID"

static struct scratch scratch;
static struct config config;

static int setup(void **state)
{
    (void)state;
    scratch_create(&scratch);
    config_default(&config);
    scratch_name(&scratch, "run", config.endpoints.run_dir);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    scratch_remove(&scratch);
    return 0;
}

static int open_endpoint(struct endpoint **out)
{
    const struct log_sink log = scratch_log(&scratch);
    scratch.line[0] = 0;
    return endpoint_open(out, &config, &log);
}

static void assert_refused(int error, const char *wanted)
{
    struct endpoint *endpoint;
    assert_int_equal(open_endpoint(&endpoint), error);
    assert_null(endpoint);
    assert_true(scratch_said(&scratch, wanted));
}

static void run_directory_is_found(void **state)
{
    (void)state;
    char out[CONFIG_TEXT_MAX];
    run_dir_find("/a/b", out, sizeof out);
    assert_string_equal(out, "/a/b");
    setenv("RUNTIME_DIRECTORY", "/run/one:/run/two", 1);
    run_dir_find("", out, sizeof out);
    assert_string_equal(out, "/run/one");
    setenv("RUNTIME_DIRECTORY", "relative", 1);
    setenv("XDG_RUNTIME_DIR", "/tmp/xdg", 1);
    run_dir_find("", out, sizeof out);
    const bool is_root = access("/run", W_OK) == 0 || access("/run/posed", W_OK) == 0;
    assert_string_equal(out, is_root ? "/run/posed" : "/tmp/xdg/posed");
    unsetenv("RUNTIME_DIRECTORY");
    unsetenv("XDG_RUNTIME_DIR");
}

// As a user who may not write to /run: what stands next.
static void run_directory_of_a_user(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    fflush(NULL); // or the child writes it, too
    const pid_t child = fork();
    if (child == 0) {
        char xdg[CONFIG_TEXT_MAX], none[CONFIG_TEXT_MAX];
        if (setgid(65534) != 0 || setuid(65534) != 0)
            exit(1);
        setenv("XDG_RUNTIME_DIR", "/tmp/xdg", 1);
        run_dir_find("", xdg, sizeof xdg);
        unsetenv("XDG_RUNTIME_DIR");
        run_dir_find("", none, sizeof none);
        exit(strcmp(xdg, "/tmp/xdg/posed") || strcmp(none, "/tmp/posed-65534") ? 2 : 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void run_directory_is_ours_alone(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    const char *run_dir = config.endpoints.run_dir;
    scratch_write_text(&scratch, "run", "");
    assert_refused(-EPERM, "run: not a folder (endpoints.run_dir)");
    unlink(run_dir);
    scratch_make_folder(&scratch, "run");
    chmod(run_dir, 0777);
    assert_refused(-EPERM, "run: everybody can write there (endpoints.run_dir)");
    chmod(run_dir, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(run_dir, 12345, 12345), 0);
        assert_refused(-EPERM, "run: belongs to another user (endpoints.run_dir)");
        assert_int_equal(chown(run_dir, 0, 0), 0);
    }
    char lock[256];
    assert_int_equal(symlink("/dev/null", scratch_name(&scratch, "run/lock", lock)), 0);
    assert_refused(-ELOOP, "run/lock: Too many levels of symbolic links (endpoints.run_dir)");
    unlink(lock);
    fails_at("lstat", 1, EIO);
    assert_refused(-EPERM, "run: Input/output error (endpoints.run_dir)");
    fails_at("memory", 1, ENOMEM);
    assert_int_equal(open_endpoint(&endpoint), -ENOMEM);
    // A lock without a number is one, too; a number that cannot be written is no reason to stop.
    fails_at("ftruncate", 1, ENOSPC);
    assert_int_equal(open_endpoint(&endpoint), 0);
    fails_end();
    assert_true(scratch_said(&scratch, "run/lock: No space left on device"));
    assert_refused(-EBUSY, "another posed (process 0) is running with");
    endpoint_close(&endpoint);
    fails_at("pwrite", 1, ENOSPC);
    assert_int_equal(open_endpoint(&endpoint), 0);
    fails_end();
    endpoint_close(&endpoint);
    assert_int_equal(open_endpoint(&endpoint), 0);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "another posed (process %ld)", (long)getpid());
    assert_refused(-EBUSY, wanted);
    endpoint_close(&endpoint);
    endpoint_close(&endpoint);
    snprintf(config.endpoints.run_dir, sizeof config.endpoints.run_dir, "%s/none/run",
             scratch.path);
    assert_refused(-ENOENT, "none/run: No such file or directory (endpoints.run_dir)");
}

static void run_directory_may_be_a_link(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    const char *run_dir = config.endpoints.run_dir;
    char target[256], wanted[512];
    assert_int_equal(symlink(scratch_name(&scratch, "target", target), run_dir), 0);
    snprintf(wanted, sizeof wanted, "run, a symbolic link to %s: No such file", target);
    assert_refused(-EPERM, wanted);
    scratch_write_text(&scratch, "target", "");
    snprintf(wanted, sizeof wanted, "run, a symbolic link to %s: not a folder", target);
    assert_refused(-EPERM, wanted);
    unlink(target);
    scratch_make_folder(&scratch, "target");
    chmod(target, 01777);
    snprintf(wanted, sizeof wanted, "run, a symbolic link to %s: everybody can write", target);
    assert_refused(-EPERM, wanted);
    chmod(target, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(target, 12345, 12345), 0);
        snprintf(wanted, sizeof wanted, "link to %s: belongs to another user", target);
        assert_refused(-EPERM, wanted);
        assert_int_equal(chown(target, 0, 0), 0);
        assert_int_equal(lchown(run_dir, 12345, 12345), 0);
        snprintf(wanted, sizeof wanted, "link to %s: the link belongs to another user", target);
        assert_refused(-EPERM, wanted);
        assert_int_equal(lchown(run_dir, 0, 0), 0);
    }
    assert_int_equal(open_endpoint(&endpoint), 0);
    assert_int_equal(access(scratch_name(&scratch, "target/lock", wanted), F_OK), 0);
    endpoint_close(&endpoint);
}

static void groups(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    snprintf(config.endpoints.group, sizeof config.endpoints.group, "no such group");
    assert_refused(-EINVAL, "endpoints.group: no group \"no such group\" here");
    const struct group *own = getgrgid(getegid());
    if (!own)
        return;
    snprintf(config.endpoints.group, sizeof config.endpoints.group, "%s", own->gr_name);
    assert_int_equal(open_endpoint(&endpoint), 0);
    endpoint_close(&endpoint);
}

// Text of a key file, and what is said of it.
static const char *const bad_keys[][2] = {
    {"", "secret: holds no CURVE secret key"},
    {"# only a comment\n\n", "secret: holds no CURVE secret key"},
    {"\n# a comment\nabc\n", "secret:3: not a CURVE key (40 characters Z85)"},
    {"JTKVSB%%)wK0E.X)V>+}o?pNmC{O&4W4b!Ni{Lh~\n", "secret:1: not a CURVE key"},
    {"#####"
     "#####"
     "#####"
     "#####"
     "#####"
     "#####"
     "#####"
     "#####\n",
     "secret:1: not a CURVE key"},
    {SECRET "\n" SECRET "\n", "secret:2: more than 1 keys"},
};

// In the list of clients: the daemon's own, a client's beside its public one, and one that is too
// large a number for a public key. To all others the list lets nobody in, as a public one.
static void refuse_secret_keys(void)
{
    static const char *const lists[] = {
        SECRET "\n",
        "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\n" CLIENT "\n",
        "000000000000000000000000000000000000001H\n",
    };
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        scratch_write_text(&scratch, "clients", lists[i]);
        assert_refused(-EINVAL, "clients:1: a secret key, which nobody but its owner may have");
    }
}

static void key_files(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    char path[256];
    scratch_name(&scratch, "secret", config.endpoints.curve_secret_key_file);
    assert_refused(-EINVAL, "secret: No such file or directory");
    scratch_name(&scratch, "", config.endpoints.curve_secret_key_file);
    assert_refused(-EINVAL, "curve_secret_key_file: ");
    assert_true(scratch_said(&scratch, "is not a file"));
    scratch_write_text(&scratch, "ours.public", SECRET "\n");
    scratch_name(&scratch, "ours.public", config.endpoints.curve_secret_key_file);
    assert_refused(-EINVAL, "ours.public holds the public key");
    scratch_name(&scratch, "secret", config.endpoints.curve_secret_key_file);
    for (size_t i = 0; i < sizeof bad_keys / sizeof *bad_keys; i++) {
        scratch_write_text(&scratch, "secret", bad_keys[i][0]);
        chmod(scratch_name(&scratch, "secret", path), 0600);
        assert_refused(-EINVAL, bad_keys[i][1]);
    }
    scratch_write_text(&scratch, "secret", "# ours\n " SECRET "\r\n");
    chmod(path, 0640);
    assert_refused(-EINVAL, "endpoints.curve_secret_key_file: others can read ");
    config.endpoints.insecure = true;
    assert_int_equal(open_endpoint(&endpoint), 0);
    assert_true(scratch_said(&scratch, "any client that knows it"));
    endpoint_close(&endpoint);
    config.endpoints.insecure = false;
    chmod(path, 0600);
    scratch_name(&scratch, "clients", config.endpoints.curve_clients_file);
    assert_refused(-EINVAL, "clients: No such file or directory");
    scratch_write_text(&scratch, "clients", CLIENT "\nx\n");
    assert_refused(-EINVAL, "clients:2: not a CURVE key");
    refuse_secret_keys();
    scratch_write_text(&scratch, "clients", CLIENT "\n" CLIENT " again\n");
    assert_int_equal(open_endpoint(&endpoint), 0);
    // the public key that the specification has with this secret one
    assert_true(scratch_said(
        &scratch,
        "CURVE: public key rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7, listed clients only"));
    assert_non_null(endpoint_server_settings(endpoint).keys);
    struct curve_keys *keys = endpoint_server_settings(endpoint).keys;
    assert_int_equal(keys->n_clients, 1);
    // read again: another list, a wrong one, none
    const unsigned n_lists = curve_n_lists(keys);
    assert_int_equal(endpoint_reload(endpoint, &config), 0);
    assert_int_equal(curve_n_lists(keys), n_lists);
    scratch_write_text(&scratch, "clients", "");
    assert_int_equal(endpoint_reload(endpoint, &config), 0);
    assert_true(scratch_said(&scratch, "clients read again: 0 clients may connect, 0 new; 1 no"));
    assert_int_equal(curve_n_lists(keys), n_lists + 1);
    scratch_write_text(&scratch, "clients",
                       CLIENT "\n"
                              "rq:rM>}U?@Lns47E1%kR.o@n%FcmmsL/@{H8]yf7\n");
    assert_int_equal(endpoint_reload(endpoint, &config), 0);
    assert_int_equal(keys->n_clients, 2);
    scratch_write_text(&scratch, "clients", "x\n");
    assert_int_equal(endpoint_reload(endpoint, &config), -EINVAL);
    unlink(config.endpoints.curve_clients_file);
    assert_int_equal(endpoint_reload(endpoint, &config), -EINVAL);
    assert_true(scratch_said(&scratch, "the clients that may connect stay the old ones"));
    assert_int_equal(keys->n_clients, 2);
    assert_int_equal(curve_n_lists(keys), n_lists + 2);
    // with a secret key that is there for a later restart
    scratch_write_text(&scratch, "secret", "D:)Q[IlAW!ahhC2ac:9*A}h:p?([4%wOTJ%JR%cs\n");
    scratch_write_text(&scratch, "clients", CLIENT "\n");
    assert_int_equal(endpoint_reload(endpoint, &config), 0);
    assert_true(scratch_said(&scratch, "holds another key: it needs a restart; the old one stays"));
    assert_int_equal(keys->n_clients, 1);
    endpoint_close(&endpoint);
}

// What the start would refuse is refused before it, and who is let in by nobody's key is told of.
static void keys_are_checked(void **state)
{
    (void)state;
    const struct log_sink log = scratch_log(&scratch);
    struct endpoint *endpoint;
    char path[256];
    assert_int_equal(endpoint_check(&config, &log), 0);
    scratch_name(&scratch, "secret", config.endpoints.curve_secret_key_file);
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "endpoints.curve_secret_key_file: /tmp"));
    assert_true(scratch_said(&scratch, "secret: No such file or directory"));
    scratch_write_text(&scratch, "secret", SECRET "\n");
    assert_int_equal(chmod(scratch_name(&scratch, "secret", path), 0600), 0);
    assert_int_equal(endpoint_check(&config, &log), 0);
    scratch_name(&scratch, "", config.endpoints.curve_clients_file);
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "endpoints.curve_clients_file: /tmp"));
    assert_true(scratch_said(&scratch, "is not a file"));
    scratch_name(&scratch, "clients", config.endpoints.curve_clients_file);
    scratch_write_text(&scratch, "clients", "# nobody yet\n\n");
    scratch.worst = LOG_LEVEL_DEBUG;
    assert_int_equal(endpoint_check(&config, &log), 0);
    assert_int_equal(scratch.worst, LOG_LEVEL_WARNING);
    assert_true(scratch_said(&scratch, "/clients lists no key: it lets nobody in"));
    assert_int_equal(open_endpoint(&endpoint), 0);
    endpoint_close(&endpoint);
    config.endpoints.curve_secret_key_file[0] = 0;
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "keeps nobody out without endpoints.curve_secret_key_file"));
    config.endpoints.curve_clients_file[0] = 0;
    snprintf(config.endpoints.group, sizeof config.endpoints.group, "no such group");
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "endpoints.group: no group \"no such group\" here"));
}

static void addresses_are_checked(void **state)
{
    (void)state;
    const struct log_sink log = scratch_log(&scratch);
    const size_t n = strlen(config.endpoints.run_dir);
    scratch_write_text(&scratch, "run", "");
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch, "endpoints.run_dir: "));
    assert_true(scratch_said(&scratch, "/run: not a folder"));
    unlink(config.endpoints.run_dir);
    snprintf(config.endpoints.img, sizeof config.endpoints.img, "tcp://lo:7 tcp://127.0.0.1:5570");
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(
        &scratch, "endpoints.img: tcp://127.0.0.1:5570 is there already, in endpoints.pub"));
    snprintf(config.endpoints.img, sizeof config.endpoints.img, "tcp://lo:* tcp://lo:* ipc");
    assert_int_equal(endpoint_check(&config, &log), 0);
    config.endpoints.pub[0] = config.endpoints.latest[0] = config.endpoints.img[0] = 0;
    memset(config.endpoints.run_dir + n, 'x', 103 - n); // and "/req": what a path has room for
    config.endpoints.run_dir[103] = 0;
    assert_int_equal(endpoint_check(&config, &log), 0);
    memcpy(config.endpoints.run_dir + 103, "x", 2);
    assert_int_equal(endpoint_check(&config, &log), -EINVAL);
    assert_true(scratch_said(&scratch,
                             "endpoints.req: ipc would have a path that is too long for a "
                             "socket: shorten endpoints.run_dir"));
    snprintf(config.endpoints.req, sizeof config.endpoints.req, "tcp://lo:*");
    assert_int_equal(endpoint_check(&config, &log), 0);
}

// What must be said when the process may have few descriptors.
static void descriptors(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    config.endpoints.max_connections = 1000;
    static const struct {
        const char *call;
        rlim_t limit;
        uint32_t n_connections;
    } cases[] = {{NULL, 1000, 186},        {NULL, 300, 37},        {NULL, 12, 4},
                 {"getrlimit", 300, 1000}, {"setrlimit", 300, 37}, {NULL, 5000, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (before.rlim_max < cases[i].limit)
            continue;
        fflush(NULL);
        const pid_t child = fork(); // the hard limit does not come back
        if (child == 0) {
            const struct rlimit limit = {cases[i].limit, cases[i].limit};
            char wanted[64];
            if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
                exit(1);
            if (cases[i].call)
                fails_at(cases[i].call, 1, EPERM);
            if (open_endpoint(&endpoint) != 0)
                exit(2);
            const uint32_t n = endpoint_server_settings(endpoint).max_connections;
            snprintf(wanted, sizeof wanted, "endpoints.max_connections: %u, as", n);
            if (n != cases[i].n_connections || (n < 1000 && !strstr(scratch.line, wanted)))
                exit(3);
            endpoint_close(&endpoint);
            exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        if (status != 0)
            print_error("case %zu\n", i);
        assert_int_equal(status, 0);
    }
}

static int bind_to(struct endpoint *endpoint, struct zmtp_server *server, const char *addresses)
{
    scratch.line[0] = 0;
    return endpoint_bind(endpoint, server, 0, "pub", addresses);
}

static void addresses_are_bound(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    struct zmtp_server *server;
    char path[256];
    assert_int_equal(open_endpoint(&endpoint), 0);
    const struct zmtp_server_settings settings = endpoint_server_settings(endpoint);
    assert_int_equal(zmtp_server_create(&server, &settings), 0);
    zmtp_server_add(server, "pub", ZMTP_PUBLISHER, "XPUB", 4096, 10);

    assert_int_equal(bind_to(endpoint, server, "ipc, tcp://127.0.0.1:*"), 0);
    assert_true(scratch_said(&scratch, "/run/pub tcp://127.0.0.1:"));
    unsigned port = 0;
    assert_int_equal(sscanf(strstr(scratch.line, "127.0.0.1:"), "127.0.0.1:%u", &port), 1);
    assert_int_equal(access(scratch_name(&scratch, "run/pub", path), F_OK), 0);
    assert_int_equal(bind_to(endpoint, server, ""), 0);
    assert_string_equal(scratch.line, "");
    char taken[64];
    snprintf(taken, sizeof taken, "tcp://localhost:%u", port);
    assert_int_equal(bind_to(endpoint, server, taken), -EADDRINUSE);
    assert_true(scratch_said(&scratch, "endpoints.pub: cannot bind tcp://localhost:"));
    assert_true(scratch_said(
        &scratch,
        "Address already in use (is another posed running? endpoints.* sets other ports)"));
    assert_int_equal(bind_to(endpoint, server, "tcp://lo:* tcp://*:*"), 0);
    assert_true(scratch_said(&scratch, " tcp://127.0.0.1:"));
    assert_true(scratch_said(&scratch, " tcp://0.0.0.0:"));
    if (bind_to(endpoint, server, "tcp://[::1]:*") == 0)
        assert_true(scratch_said(&scratch, " tcp://[::1]:"));
    assert_int_equal(bind_to(endpoint, server, "tcp://[::g]:5570"), -EINVAL);
    assert_true(scratch_said(&scratch, "cannot bind tcp://[::g]:5570: Invalid argument"));
    assert_int_equal(bind_to(endpoint, server, "tcp://nowhere7:5570"), -ENODEV);
    assert_true(scratch_said(
        &scratch, "cannot bind tcp://nowhere7:5570: No such device (tcp://ADDRESS:PORT wants"));

    static const struct {
        const char *call, *address;
        int error;
    } failing[] = {{"socket", "ipc", EMFILE},
                   {"socket", "tcp://127.0.0.1:*", EMFILE},
                   {"bind", "ipc", EACCES},
                   {"chmod", "ipc", EPERM},
                   {"bind", "tcp://127.0.0.1:*", EACCES},
                   {"getsockname", "tcp://127.0.0.1:*", ENOBUFS},
                   {"getifaddrs", "tcp://nowhere7:*", ENOBUFS},
                   {"listen", "ipc", EADDRINUSE},
                   {"epoll_ctl", "tcp://127.0.0.1:*", ENOMEM}};
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        fails_at(failing[i].call, 1, failing[i].error);
        assert_int_equal(bind_to(endpoint, server, failing[i].address), -failing[i].error);
        fails_end();
        assert_true(scratch_said(&scratch, "endpoints.pub: cannot bind "));
        assert_true(scratch_said(&scratch, strerror(failing[i].error)));
    }
    // as many as there are places for
    int error = 0;
    for (int i = 0; i < 20 && !error; i++)
        error = bind_to(endpoint, server, "tcp://127.0.0.1:*");
    assert_int_equal(error, -ENOSPC);
    zmtp_server_destroy(&server);
    endpoint_close(&endpoint);
    assert_int_equal(access(path, F_OK), -1);
}

static void socket_paths(void **state)
{
    (void)state;
    struct endpoint *endpoint;
    struct zmtp_server *server;
    const size_t n = strlen(config.endpoints.run_dir);
    memset(config.endpoints.run_dir + n, 'x', 110 - n);
    config.endpoints.run_dir[110] = 0;
    if (getgrgid(getegid()))
        snprintf(config.endpoints.group, sizeof config.endpoints.group, "%s",
                 getgrgid(getegid())->gr_name);
    assert_int_equal(open_endpoint(&endpoint), 0);
    const struct zmtp_server_settings settings = endpoint_server_settings(endpoint);
    assert_int_equal(zmtp_server_create(&server, &settings), 0);
    zmtp_server_add(server, "pub", ZMTP_PUBLISHER, "XPUB", 4096, 10);
    assert_int_equal(bind_to(endpoint, server, "ipc"), -ENAMETOOLONG);
    assert_true(scratch_said(&scratch, "File name too long"));
    endpoint_close(&endpoint);

    config.endpoints.run_dir[n] = 0;
    assert_int_equal(open_endpoint(&endpoint), 0);
    if (config.endpoints.group[0]) {
        fails_at("chown", 1, EPERM);
        assert_int_equal(bind_to(endpoint, server, "ipc"), -EPERM);
        assert_true(scratch_said(&scratch, "cannot bind ipc://"));
        fails_end();
    }
    assert_int_equal(bind_to(endpoint, server, "ipc"), 0);
    zmtp_server_destroy(&server);
    endpoint_close(&endpoint);
}

// Somebody removes the run directory of one that runs, and another starts there: its socket stays
// when the first one ends.
static void sockets_of_another(void **state)
{
    (void)state;
    struct endpoint *endpoints[2];
    struct zmtp_server *servers[2];
    char path[256], lock[256];
    for (int i = 0; i < 2; i++) {
        assert_int_equal(open_endpoint(&endpoints[i]), 0);
        const struct zmtp_server_settings settings = endpoint_server_settings(endpoints[i]);
        assert_int_equal(zmtp_server_create(&servers[i], &settings), 0);
        zmtp_server_add(servers[i], "pub", ZMTP_PUBLISHER, "XPUB", 4096, 10);
        assert_int_equal(bind_to(endpoints[i], servers[i], "ipc"), 0);
        if (i == 0) {
            assert_int_equal(unlink(scratch_name(&scratch, "run/pub", path)), 0);
            assert_int_equal(unlink(scratch_name(&scratch, "run/lock", lock)), 0);
            assert_int_equal(rmdir(config.endpoints.run_dir), 0);
        }
    }
    for (int i = 0; i < 2; i++) {
        zmtp_server_destroy(&servers[i]);
        endpoint_close(&endpoints[i]);
        assert_int_equal(access(path, F_OK), i == 0 ? 0 : -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(run_directory_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(run_directory_of_a_user, setup, teardown),
        cmocka_unit_test_setup_teardown(run_directory_is_ours_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(run_directory_may_be_a_link, setup, teardown),
        cmocka_unit_test_setup_teardown(groups, setup, teardown),
        cmocka_unit_test_setup_teardown(key_files, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_are_checked, setup, teardown),
        cmocka_unit_test_setup_teardown(descriptors, setup, teardown),
        cmocka_unit_test_setup_teardown(addresses_are_bound, setup, teardown),
        cmocka_unit_test_setup_teardown(socket_paths, setup, teardown),
        cmocka_unit_test_setup_teardown(sockets_of_another, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
