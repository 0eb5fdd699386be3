// SPDX-License-Identifier: Apache-2.0
// Nothing is made for nobody: what the page makes the frame loop hand over and the map copy, while
// somebody looks and when nobody does any more. With the publisher that the frame loop asks.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/web/subscriptions.h"
#include "tests/unit/scratch.h"

#define CHANNEL(topic) ((uint32_t)(topic) + 1)
#define SECOND_NS      INT64_C(1000000000)

static struct scratch scratch;
static struct endpoint *endpoint;
static struct publish *publish;
static struct subscriptions subscriptions;

static int setup(void **state)
{
    static struct config config;
    static const struct publish_settings settings = {.cameras = {""}, .n_cameras = 1};
    (void)state;
    scratch_create(&scratch);
    config_default(&config);
    scratch_name(&scratch, "run", config.endpoints.run_dir);
    config.endpoints.pub[0] = config.endpoints.latest[0] = config.endpoints.img[0] = 0;
    const struct log_sink log = scratch_log(&scratch);
    assert_int_equal(endpoint_open(&endpoint, &config, &log), 0);
    assert_int_equal(publish_create(&publish, endpoint, &config, &settings, &log), 0);
    subscriptions =
        (struct subscriptions){.camera = {.name = "", .publish = publish_channel(publish, 0)}};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    subscriptions_free(&subscriptions);
    publish_destroy(&publish, 0);
    endpoint_close(&endpoint);
    scratch_remove(&scratch);
    return 0;
}

// The topics that the frame loop would make now.
static uint32_t made(void)
{
    uint32_t topics = 0;
    for (int topic = 0; topic < PUBLISH_N_TOPICS; topic++)
        topics |= (uint32_t)publish_wants(subscriptions.camera.publish, topic) << topic;
    return topics;
}

static void a_topic_while_somebody_has_it(void **state)
{
    (void)state;
    assert_int_equal(made(), 0);
    subscriptions_add(&subscriptions, CHANNEL(PUBLISH_CLOUD));
    subscriptions_add(&subscriptions, CHANNEL(PUBLISH_CLOUD));
    subscriptions_add(&subscriptions, CHANNEL(PUBLISH_POSE));
    assert_int_equal(made(), 1u << PUBLISH_CLOUD | 1u << PUBLISH_POSE);
    subscriptions_drop(&subscriptions, CHANNEL(PUBLISH_CLOUD));
    assert_int_equal(made(), 1u << PUBLISH_CLOUD | 1u << PUBLISH_POSE); // the other still looks
    subscriptions_drop(&subscriptions, CHANNEL(PUBLISH_CLOUD));
    assert_int_equal(made(), 1u << PUBLISH_POSE);
    subscriptions_drop(&subscriptions, CHANNEL(PUBLISH_POSE));
    assert_int_equal(made(), 0);
}

static void five_previews_a_second(void **state)
{
    const uint32_t images = 1u << PUBLISH_DEPTH | 1u << PUBLISH_NORMALS | 1u << PUBLISH_RESIDUAL;
    uint32_t n_made[PUBLISH_N_TOPICS] = {0};
    struct payload *image = payload_create(1);
    (void)state;
    assert_non_null(image);
    image->bytes[0] = 0; // no image: what matters is that one came
    assert_null(subscriptions_preview(&subscriptions, 0));
    assert_int_equal(made(), 0);
    subscriptions_add(&subscriptions, FOXGLOVE_CHANNEL_PREVIEW);
    for (int64_t frame = 0; frame < 300; frame++) { // 300 frames a second
        payload_release(subscriptions_preview(&subscriptions, SECOND_NS + frame * SECOND_NS / 300));
        for (int topic = PUBLISH_DEPTH; topic <= PUBLISH_RESIDUAL; topic++)
            if (made() >> topic & 1) {
                n_made[topic]++;
                subscriptions_look_at(&subscriptions, CHANNEL(topic), image);
            }
    }
    assert_int_equal(n_made[PUBLISH_DEPTH], 5);
    assert_int_equal(n_made[PUBLISH_NORMALS], 5);
    assert_int_equal(n_made[PUBLISH_RESIDUAL], 5);
    payload_release(subscriptions_preview(&subscriptions, 3 * SECOND_NS));
    assert_int_equal(made(), images);
    subscriptions_drop(&subscriptions, FOXGLOVE_CHANNEL_PREVIEW); // in the middle of one
    assert_int_equal(made(), 0);
    assert_null(subscriptions_preview(&subscriptions, 4 * SECOND_NS));
    assert_int_equal(made(), 0);
    payload_release(image);
}

static void the_map_while_somebody_looks(void **state)
{
    uint8_t request[MAP_PREVIEW_REQUEST_BYTES];
    uint32_t n_asked = 0;
    (void)state;
    assert_int_equal(subscriptions_surface_request(&subscriptions, SECOND_NS, 1, request), 0);
    subscriptions_add(&subscriptions, FOXGLOVE_CHANNEL_SURFACE);
    for (int64_t s = 1; s <= 100; s++)
        n_asked += subscriptions_surface_request(&subscriptions, s * SECOND_NS, 1, request) > 0;
    assert_int_equal(n_asked, 10);
    assert_int_equal(made(), 0); // no message of the frame loop's
    subscriptions_drop(&subscriptions, FOXGLOVE_CHANNEL_SURFACE);
    assert_int_equal(subscriptions_surface_request(&subscriptions, 1000 * SECOND_NS, 1, request),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_topic_while_somebody_has_it, setup, teardown),
        cmocka_unit_test_setup_teardown(five_previews_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(the_map_while_somebody_looks, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
