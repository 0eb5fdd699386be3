# SPDX-License-Identifier: Apache-2.0
"""SearchPose on request: an object that was added, as a mesh or as points, is found in an uploaded
image, with several known and by name; bad input is named; a new daemon knows the objects of its
folder, also one whose views are damaged."""
import math
import os
import struct
import subprocess
import time

import zmq

import harness
from harness import MAGIC, check, check_at_most, requests
from stair import FOCAL, HEIGHT, WIDTH, depth_image, mesh, points

N_VIEWS = 2048
N_MOST = 65536  # search.max_views
ROTATION_LIMIT_DEG = 5
TRANSLATION_LIMIT_M = 0.010


def image(data):
    return requests.DepthImage(depth=data, width=WIDTH, height=HEIGHT, fx=FOCAL, fy=FOCAL,
                               cx=WIDTH / 2, cy=HEIGHT / 2)


def add(daemon, name, vertices, triangles, **more):
    return daemon.request(_timeout_s=200, deadline_ms=190000, add_object=requests.AddObject(
        name=name, vertices=b"".join(struct.pack("<3f", *v) for v in vertices),
        triangles=b"".join(struct.pack("<3I", *t) for t in triangles),
        **{"n_views": N_VIEWS, **more}))


def search(daemon, **what):
    return daemon.request(_timeout_s=100, deadline_ms=90000,
                          search_pose=requests.SearchPose(**what))


def check_found(found, quaternion, translation, name="stair"):
    q, p = found.pose.orientation, found.pose.position
    dot = abs(sum(a * b for a, b in zip((q.x, q.y, q.z, q.w), quaternion)))
    check_at_most(math.degrees(2 * math.acos(min(1, dot))), ROTATION_LIMIT_DEG, "rotation [deg]")
    check_at_most(math.dist((p.x, p.y, p.z), translation), TRANSLATION_LIMIT_M, "translation [m]")
    check(found.object == name, found.object)


def check_germann(daemon, data):
    """The paper's search answers with its view, and with what that becomes when it is fitted."""
    preset = requests.SearchPose.GERMANN
    fitted = search(daemon, image=image(data), preset=preset).search_pose.poses[0]
    bare = search(daemon, image=image(data), preset=preset, refine=False).search_pose.poses[0]
    check(bare.pose == bare.view_pose == fitted.view_pose, f"the view: {bare} {fitted}")
    check(fitted.pose != fitted.view_pose, "fitted")
    check(bare.view == fitted.view and bare.error_px == fitted.error_px > 0, f"{bare} {fitted}")


def check_points(daemon, data, quaternion, translation):
    """Points of the surface, without triangles, are an object too."""
    added = add(daemon, "points", points(4000), [])
    check(added.code == requests.OK and added.add_object.triangles > 4000, f"{added}")
    reply = search(daemon, objects=["points"], image=image(data))
    check_found(reply.search_pose.poses[0], quaternion, translation, "points")
    check(reply.search_pose.poses[0].accepted, f"{reply}")
    check(daemon.request(remove_object=requests.RemoveObject(name="points")).code == requests.OK,
          "RemoveObject")


def check_bad_input(daemon, data, vertices, triangles, one_search_s):
    for name in ("../x", "", "a/b"):
        reply = add(daemon, name, vertices, triangles)
        check(reply.code == requests.INVALID_ARGUMENT and reply.field == "add_object.name",
              f"name {name!r}: {reply}")
    for reply, field in ((add(daemon, "x", [], triangles), "add_object.vertices"),
                         (add(daemon, "x", vertices[:2], []), "add_object"),
                         (add(daemon, "x", [(float("nan"), 0, 0)] * 3, [(0, 1, 2)]), "add_object"),
                         (add(daemon, "x", vertices, [(100, 200, 300)]), "add_object")):
        check(reply.code == requests.INVALID_ARGUMENT and reply.field == field, f"{field}: {reply}")
    check(add(daemon, "stair", vertices, triangles).code == requests.ALREADY_EXISTS, "twice")
    for n_views in (N_MOST - N_VIEWS + 1, 2**32 - 1):
        reply = add(daemon, "many", vertices, triangles, n_views=n_views)
        check(reply.code == requests.RESOURCE_EXHAUSTED and reply.field == "add_object.n_views",
              f"{n_views} views: {reply}")
    reply = search(daemon, objects=["nobody"], image=image(data))
    check(reply.code == requests.NOT_FOUND and reply.field == "search_pose.objects", f"{reply}")
    reply = search(daemon, image=image(data[:-2]))
    check(reply.field == "search_pose.image.depth", f"a short image: {reply}")
    reply = search(daemon, image=image(b"\0" * len(data)))
    check(reply.code == requests.INVALID_ARGUMENT, f"an empty image: {reply}")
    reply = search(daemon, image=image(data), mask=b"\1" * 7)
    check(reply.field == "search_pose.mask", f"a short mask: {reply}")
    reply = search(daemon, image=image(data), u0=10, u1=5000, v1=20)
    check(reply.code == requests.INVALID_ARGUMENT and "region" in reply.field, f"region: {reply}")
    reply = search(daemon, image=image(data), top=1000)
    check(reply.field == "search_pose.top", f"top: {reply}")
    reply = search(daemon, image=image(data), objects=["stair"] * 9, top=16)
    check(reply.code == requests.INVALID_ARGUMENT and reply.field == "search_pose.top",
          f"more answers than a message holds: {reply}")
    began = time.monotonic()
    reply = search(daemon, image=image(data), objects=["stair"] * 31 + ["nobody"])
    check(reply.code == requests.NOT_FOUND and "nobody" in reply.message, f"{reply}")
    check_at_most(time.monotonic() - began, 5 * one_search_s, "a name that is not known, last [s]")
    reply = search(daemon, frame_seq=10**9)
    check(reply.code == requests.NOT_FOUND and reply.field == "search_pose.frame_seq", f"{reply}")
    reply = daemon.request(remove_object=requests.RemoveObject(name="nobody"))
    check(reply.code == requests.NOT_FOUND, f"{reply}")


def check_cancel(daemon, vertices, triangles):
    """Drawing very many views, or choosing among them, is given up when the client says so."""
    client = daemon.socket(zmq.DEALER, "req")
    request = requests.Request(id=3, deadline_ms=190000, add_object=requests.AddObject(
        name="long", vertices=b"".join(struct.pack("<3f", *v) for v in vertices),
        triangles=b"".join(struct.pack("<3I", *t) for t in triangles), n_views=N_MOST - N_VIEWS,
        greedy=True))
    client.send(MAGIC + request.SerializeToString())
    time.sleep(1)  # views are compared by now: all pairs would take an hour
    start = time.monotonic()
    listed = daemon.request(list_objects=requests.ListObjects()).list_objects.objects
    check([o.name for o in listed] == ["stair"], f"listed meanwhile: {listed}")
    check_at_most(time.monotonic() - start, 5, "ListObjects while an object is built [s]")
    client.send(MAGIC + requests.Request(id=4, cancel=requests.Cancel(id=3)).SerializeToString())
    codes = {}
    for _ in range(2):
        check(client.poll(20000), "the reply of the cancelled request")
        reply = requests.Reply.FromString(client.recv()[len(MAGIC):])
        codes[reply.id] = reply.code
    check(codes == {3: requests.CANCELLED, 4: requests.OK}, f"{codes}")


def check_not_kept(daemon, folder):
    """A folder that went away: the object is known, and whoever added it is told that it is not
    kept."""
    os.rename(folder, folder + ".elsewhere")
    done = subprocess.run([harness.BINARY + "/bin/posectl", "object", "add", "lost",
                           folder + ".elsewhere/stair.ply", "--views", "64", "-e", daemon.folder],
                          capture_output=True, text=True, timeout=harness.PATIENCE_S)
    os.rename(folder + ".elsewhere", folder)
    check(done.returncode == 0 and done.stdout.startswith("lost"), done)
    check("lost will be gone when the daemon ends: it could not be kept in search.folder" in
          done.stderr, done.stderr)


def check_damaged(options, folder, data, quaternion, translation):
    """The views of a damaged file are drawn again from the mesh beside it."""
    path = folder + "/stair.object"
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        file.write(b"damage")
    for start in range(2):
        third = harness.Daemon("synth:room-straight", *options, speed=1)
        third.wait_for(lambda daemon=third: daemon.poses, "first pose")
        reply = search(third, objects=["stair"], image=image(data))
        check_found(reply.search_pose.poses[0], quaternion, translation)
        check(("drawn again from " + folder + "/stair.ply" in third.log()) == (start == 0),
              f"start {start}: {third.log()}")
        if start == 1:
            reply = third.request(remove_object=requests.RemoveObject(name="stair"))
            check(reply.code == requests.OK, "RemoveObject")
            listed = third.request(list_objects=requests.ListObjects()).list_objects.objects
            check(not listed and not os.listdir(folder), f"removed: {os.listdir(folder)}")
        third.stop()


def scenario():
    half = math.radians(50) / 2
    axis = (0.36, 0.48, 0.8)
    quaternion = tuple(math.sin(half) * a for a in axis) + (math.cos(half),)
    translation = (0.06, -0.03, 0.7)
    data = depth_image(quaternion, translation)
    vertices, triangles = mesh()
    folder = harness.SCRATCH + "/objects"
    options = ("--loop", "--set", "tracker.iterations=3,3,3", "--set", "search.folder=" + folder)
    daemon = harness.Daemon("synth:room-straight", *options, speed=1)
    daemon.wait_for(lambda: len(daemon.poses) > 3, "poses")
    reply = search(daemon, image=image(data))
    check(reply.code == requests.FAILED_PRECONDITION, f"without objects: {reply}")
    added = add(daemon, "stair", vertices, triangles)
    check(added.code == requests.OK and added.add_object.views == N_VIEWS, f"{added}")
    check(added.add_object.triangles == len(triangles), f"{added}")
    began = time.monotonic()
    reply = search(daemon, image=image(data), top=3)
    one_search_s = time.monotonic() - began
    check(reply.code == requests.OK and reply.search_pose.poses, f"{reply}")
    check_found(reply.search_pose.poses[0], quaternion, translation)
    check_germann(daemon, data)
    check_points(daemon, data, quaternion, translation)
    check(search(daemon).code == requests.OK, "the newest frame")
    check_bad_input(daemon, data, vertices, triangles, one_search_s)
    check_cancel(daemon, vertices, triangles)
    check_not_kept(daemon, folder)
    daemon.stop()
    harness.check_poses(daemon.poses, len(daemon.poses))

    second = harness.Daemon("synth:room-straight", *options, speed=1)
    second.wait_for(lambda: second.poses, "first pose")
    listed = second.request(_timeout_s=60, list_objects=requests.ListObjects()).list_objects.objects
    check([o.name for o in listed] == ["stair"], f"kept objects: {listed}")
    reply = search(second, objects=["stair"], image=image(data))
    check_found(reply.search_pose.poses[0], quaternion, translation)
    second.stop()
    check_damaged(options, folder, data, quaternion, translation)


harness.run(scenario)
