#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 node that takes poses of posed without DDS in between: publishes PoseStamped on `pose`,
of the camera's body in `odom`, both with ROS's axes (REP 103: x forward, y left, z up) as of
`base_link` in what `posed --set ros.publish=true` publishes with the camera at the base's origin;
and says on `usable` whether the robot may act on it: not when it is LOST, nor when none has come
for MAX_AGE_S.
ros2_node.py [WHERE]"""
import sys
import threading

import posed
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from std_msgs.msg import Bool

MAX_AGE_S = 0.5


def in_ros(v):
    """Of a camera's axes (x right, y down, z forward)."""
    right, down, forward = map(float, v)
    return forward, -right, -down


class PosedNode(Node):
    def __init__(self, where):
        super().__init__("posed_client")
        self.poses = self.create_publisher(PoseStamped, "pose", 10)
        self.usable = self.create_publisher(Bool, "usable", 10)
        threading.Thread(target=self.listen, args=(where, ), daemon=True).start()

    def listen(self, where):
        with posed.connect(where) as camera:
            poses = camera.poses(timeout_s=MAX_AGE_S)
            while True:
                try:
                    self.publish(next(poses))
                except posed.NoAnswer:
                    self.usable.publish(Bool(data=False))

    def publish(self, pose):
        message = PoseStamped()
        message.header.frame_id = "odom"
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(pose.time_ns, 10**9)
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = in_ros(pose.position)
        q.x, q.y, q.z = in_ros(pose.quaternion[:3])  # the axis that it turns about
        q.w = float(pose.quaternion[3])
        self.usable.publish(Bool(data=pose.state.usable))
        self.poses.publish(message)


def main():
    rclpy.init()
    node = PosedNode(sys.argv[1] if len(sys.argv) > 1 else None)
    try:
        rclpy.spin(node)
    except KeyboardInterrupt:
        pass
    finally:
        node.destroy_node()
        rclpy.try_shutdown()


main()
