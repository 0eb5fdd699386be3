# SPDX-License-Identifier: Apache-2.0
"""What programs of ROS 2 tell each other of their nodes, by the package `cyclonedds`; for the
interpreter that has it:

    ros_node_peer.py DOMAIN

Reads ros_discovery_info, as every program of ROS does. First nobody tells of himself there, then
one program does by the type of Iron and later, then another by one without a hash, as Humble's,
which ends again. Prints a JSON list of what the daemon told in each of these four times, null
where it told nothing: its node's namespace and name, and the topics of the writers that it
named."""
import json
import sys
import time

from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration

from ros_types import Gid, NodeEntitiesInfo, ParticipantEntitiesInfo

NAME = "ros_discovery_info"
HASH = b"typehash=RIHS01_91a0593bacdcc50ea9bdcf849a938b128412cc1ea821245c663bcd26f83c295e;"
POLICIES = (Policy.Reliability.Reliable(duration(seconds=1)), Policy.History.KeepLast(1),
            Policy.Durability.TransientLocal)
WAIT_S = 3  # the daemon looks once a second


def teller(domain, *policies):
    """A program with a node, until it is thrown away."""
    participant = DomainParticipant(domain)
    qos = Qos(*POLICIES, *policies)
    writer = DataWriter(participant, Topic(participant, NAME, ParticipantEntitiesInfo), qos=qos)
    gid = Gid(data=list(participant.guid.bytes))
    node = NodeEntitiesInfo(node_namespace="/", node_name="other", reader_gid_seq=[],
                            writer_gid_seq=[])
    writer.write(ParticipantEntitiesInfo(gid=gid, node_entities_info_seq=[node]))
    return participant, writer


def main():
    domain = int(sys.argv[1])
    participant = DomainParticipant(domain)
    publications = BuiltinDataReader(participant, BuiltinTopicDcpsPublication)
    topic = Topic(participant, NAME, ParticipantEntitiesInfo)

    def told():
        """To a reader that is new: of what is still there."""
        time.sleep(WAIT_S)
        reader = DataReader(participant, topic, qos=Qos(*POLICIES))
        time.sleep(1)
        endpoints = publications.read(1000)
        topics = {e.key.bytes: e.topic_name for e in endpoints}
        owners = {e.key.bytes: e.participant_key.bytes for e in endpoints}
        found = None
        for info in reader.take(100):
            if not info.sample_info.valid_data or \
                    info.node_entities_info_seq[0].node_name == "other":
                continue
            node, = info.node_entities_info_seq
            gids = [bytes(gid.data) for gid in node.writer_gid_seq]
            assert found is None and node.reader_gid_seq == []
            assert {owners[gid] for gid in gids} == {bytes(info.gid.data)}
            found = [node.node_namespace, node.node_name, sorted(topics[gid] for gid in gids)]
        return found

    said = [told()]
    first = teller(domain, Policy.Userdata(HASH))
    said.append(told())
    second = teller(domain)
    said.append(told())
    del second
    said.append(told())
    print(json.dumps(said), flush=True)
    del first


main()
