// SPDX-License-Identifier: Apache-2.0
// What the image channels of an MCAP file have, depth or not, of which the indexes of chunks alone
// have told.
#ifndef POSED_CAPTURE_MCAP_IMAGE_KINDS_H
#define POSED_CAPTURE_MCAP_IMAGE_KINDS_H

#include "capture/mcap/channels.h"
#include "capture/mcap/read_chunk.h"

// Looks at the first message of each channel whose kind is not known; it stays unknown where that
// cannot be read. Returns 0, -ENOMEM or -EIO.
__attribute__((warn_unused_result)) int mcap_look_at_images(struct mcap_reader *reader,
                                                            const struct mcap_chunk *chunks,
                                                            struct mcap_channels *channels);

#endif
