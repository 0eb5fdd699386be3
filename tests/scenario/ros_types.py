# SPDX-License-Identifier: Apache-2.0
"""ROS 2's messages as the package `cyclonedds` has them (for ros_peer.py and ros_bad_peer.py)."""
import types
from dataclasses import dataclass

from cyclonedds.idl import IdlStruct
from cyclonedds.idl.annotations import final
from cyclonedds.idl.types import array, float64, int32, sequence, uint8, uint32


def ros(package, name):
    """A message type by ROS 2's name on the wire."""
    def make(cls):
        made = types.new_class(name, (IdlStruct,), {"typename": f"{package}.msg.dds_.{name}_"},
                               lambda body: body.update(__annotations__=cls.__annotations__))
        return dataclass(final(made))
    return make


@ros("builtin_interfaces", "Time")
class Time:
    sec: int32
    nanosec: uint32


@ros("std_msgs", "Header")
class Header:
    stamp: Time
    frame_id: str


@ros("geometry_msgs", "Vector3")
class Vector3:
    x: float64
    y: float64
    z: float64


@ros("geometry_msgs", "Quaternion")
class Quaternion:
    x: float64
    y: float64
    z: float64
    w: float64


@ros("geometry_msgs", "Pose")
class Pose:
    position: Vector3
    orientation: Quaternion


@ros("geometry_msgs", "PoseWithCovariance")
class PoseWithCovariance:
    pose: Pose
    covariance: array[float64, 36]


@ros("geometry_msgs", "Twist")
class Twist:
    linear: Vector3
    angular: Vector3


@ros("geometry_msgs", "TwistWithCovariance")
class TwistWithCovariance:
    twist: Twist
    covariance: array[float64, 36]


@ros("nav_msgs", "Odometry")
class Odometry:
    header: Header
    child_frame_id: str
    pose: PoseWithCovariance
    twist: TwistWithCovariance


@ros("geometry_msgs", "Transform")
class Transform:
    translation: Vector3
    rotation: Quaternion


@ros("geometry_msgs", "TransformStamped")
class TransformStamped:
    header: Header
    child_frame_id: str
    transform: Transform


@ros("tf2_msgs", "TFMessage")
class TFMessage:
    transforms: sequence[TransformStamped]


@ros("sensor_msgs", "Image")
class Image:
    header: Header
    height: uint32
    width: uint32
    encoding: str
    is_bigendian: uint8
    step: uint32
    data: sequence[uint8]


@ros("sensor_msgs", "CompressedImage")
class CompressedImage:
    header: Header
    format: str
    data: sequence[uint8]


@ros("sensor_msgs", "RegionOfInterest")
class RegionOfInterest:
    x_offset: uint32
    y_offset: uint32
    height: uint32
    width: uint32
    do_rectify: bool


@ros("sensor_msgs", "CameraInfo")
class CameraInfo:
    header: Header
    height: uint32
    width: uint32
    distortion_model: str
    d: sequence[float64]
    k: array[float64, 9]
    r: array[float64, 9]
    p: array[float64, 12]
    binning_x: uint32
    binning_y: uint32
    roi: RegionOfInterest


@ros("diagnostic_msgs", "KeyValue")
class KeyValue:
    key: str
    value: str


@ros("diagnostic_msgs", "DiagnosticStatus")
class DiagnosticStatus:
    level: uint8
    name: str
    message: str
    hardware_id: str
    values: sequence[KeyValue]


@ros("diagnostic_msgs", "DiagnosticArray")
class DiagnosticArray:
    header: Header
    status: sequence[DiagnosticStatus]


def stamp(time_ns):
    return Time(sec=time_ns // 10**9, nanosec=time_ns % 10**9)


def ns(header):
    return header.stamp.sec * 10**9 + header.stamp.nanosec


@ros("rmw_dds_common", "Gid")
class Gid:
    data: array[uint8, 16]


@ros("rmw_dds_common", "NodeEntitiesInfo")
class NodeEntitiesInfo:
    node_namespace: str
    node_name: str
    reader_gid_seq: sequence[Gid]
    writer_gid_seq: sequence[Gid]


@ros("rmw_dds_common", "ParticipantEntitiesInfo")
class ParticipantEntitiesInfo:
    gid: Gid
    node_entities_info_seq: sequence[NodeEntitiesInfo]
