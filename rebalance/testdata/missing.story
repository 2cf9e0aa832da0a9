# A topic that does not exist holds up only the sub-topologies that read it.
# What runs there already runs on.

topics orders=2 clicks=2
build v1 0:orders:stateful:1 1:clicks,users:stateful:2
join a build=v1
settle
----
generation 1, missing users
  a: 0_0 0_1

topics users=2
settle
----
generation 2
  a: 0_0 0_1 1_0 1_1

topics users=0
join b build=v1
settle
----
generation 3, 1 partitions withheld, missing users
  a: 0_0 1_0 1_1
  b:
generation 4, missing users
  a: 0_0 1_0 1_1
  b: 0_1

topics users=4
settle
----
generation 5
  a: 0_0 1_0 1_1
  b: 0_1 1_2 1_3
