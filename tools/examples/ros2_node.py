#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A ROS 2 node that takes poses of posed without DDS in between: publishes PoseStamped on `pose`,
and says on `usable` whether the robot may act on it: not when it is LOST, nor when none has come
for MAX_AGE_S. (`posed --set ros.publish=true` publishes odometry and tf by itself.)
ros2_node.py [WHERE]"""
import sys
import threading

import posed
import rclpy
from geometry_msgs.msg import PoseStamped
from rclpy.node import Node
from std_msgs.msg import Bool

MAX_AGE_S = 0.5


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
        message.header.frame_id = "odom"  # axes of a camera: x right, y down, z forward
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(pose.time_ns, 10**9)
        p, q = message.pose.position, message.pose.orientation
        p.x, p.y, p.z = map(float, pose.position)
        q.x, q.y, q.z, q.w = map(float, pose.quaternion)
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
