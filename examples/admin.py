"""Create a topic, change a setting of it, and describe both: `admin.py BOOTSTRAP TOPIC`."""

import sys

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

bootstrap, topic = sys.argv[1:3]

admin = KafkaAdminClient(bootstrap_servers=bootstrap)
admin.create_topics([NewTopic(name=topic, num_partitions=3, replication_factor=1)])
admin.alter_configs({ConfigResource(ConfigResourceType.TOPIC, topic): {"retention.ms": "3600000"}})
(described,) = admin.describe_topics([topic])
print(f"{described['name']} has {len(described['partitions'])} partitions")
admin.close()
