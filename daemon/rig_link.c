// SPDX-License-Identifier: Apache-2.0
#include "daemon/rig_link.h"

void rig_link_put(struct rig_link *link, uint32_t index, int64_t now_ns, uint32_t epoch,
                  bool is_cut)
{
    struct rig_link_camera *camera = &link->cameras[index];
    camera->seen_ns = now_ns;
    const bool begins = camera->has_epoch && epoch != camera->epoch;
    if (begins && is_cut) { // the newest counts: what the rig begins next is not what was asked for
        for (uint32_t i = 0; i < link->n_cameras; i++)
            link->cameras[i].is_reset = false;
    } else if (begins || (camera->is_cut && !is_cut)) {
        camera->is_reset = true;
    }
    camera->has_epoch = true;
    camera->epoch = epoch;
    camera->is_cut = is_cut;
}

void rig_link_end(struct rig_link *link, uint32_t camera)
{
    link->cameras[camera].has_ended = true;
}

static bool is_gone(const struct rig_link *link, const struct rig_link_camera *camera)
{
    int64_t newest_ns = 0;
    for (uint32_t i = 0; i < link->n_cameras; i++)
        if (link->cameras[i].seen_ns > newest_ns)
            newest_ns = link->cameras[i].seen_ns;
    return newest_ns - camera->seen_ns > RIG_LINK_GONE_NS;
}

void rig_link_follow(struct rig_link *link, uint32_t epoch)
{
    const bool begins = link->has_epoch && epoch != link->epoch;
    bool any = false, all = true;
    for (uint32_t i = 0; i < link->n_cameras; i++) {
        const struct rig_link_camera *const camera = &link->cameras[i];
        any = any || camera->is_reset;
        all = all && (camera->is_reset || camera->has_ended || is_gone(link, camera));
    }
    link->has_epoch = true;
    link->epoch = epoch;
    if (begins)
        link->is_cut = !any;
    else if (any && all)
        link->is_cut = false;
    else
        return;
    for (uint32_t i = 0; i < link->n_cameras; i++)
        link->cameras[i].is_reset = false;
}
