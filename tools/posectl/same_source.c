// SPDX-License-Identifier: Apache-2.0
#include "tools/posectl/same_source.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "capture/capture.h"

// The place of "DRIVER:PLACE"; a bare path is one.
static const char *place_of(const char *source)
{
    const size_t n = strcspn(source, ":");
    for (const struct capture_driver_name *driver = capture_drivers(); driver->name; driver++)
        if (source[n] && strlen(driver->name) == n && memcmp(driver->name, source, n) == 0)
            return source + n + 1;
    return source;
}

// Of PLACE or PLACE#TOPIC; *out_topic is "" where none is named.
static bool find_file(const char *place, struct stat *out, const char **out_topic)
{
    const char *hash = strrchr(place, '#');
    *out_topic = "";
    if (stat(place, out) == 0)
        return true;
    char *file = hash ? strndup(place, (size_t)(hash - place)) : NULL;
    const bool is_there = file && stat(file, out) == 0;
    free(file);
    *out_topic = is_there ? hash + 1 : "";
    return is_there;
}

bool same_source(const char *a, const char *b)
{
    struct stat of_a, of_b;
    const char *topic_a, *topic_b;
    if (strcmp(a, b) == 0)
        return true;
    return find_file(place_of(a), &of_a, &topic_a) && find_file(place_of(b), &of_b, &topic_b) &&
           of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino &&
           strcmp(topic_a, topic_b) == 0;
}
