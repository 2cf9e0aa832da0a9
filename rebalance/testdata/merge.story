# The new build reads in one sub-topology what the old one read in two. No
# partition is read by both builds.

topics orders=2 payments=3
build v1 0:orders:stateful:a 1:payments:stateful:b
build v2 0:orders,payments:stateful:c
join a build=v1
join b build=v1
settle
----
generation 1
  a: 0_0 1_0 1_2
  b: 0_1 1_1

kill a
join a build=v2
settle
----
generation 2
  b: 0_0 0_1 1_0 1_1 1_2
  a:

join c build=v2
settle
----
generation 3, 5 partitions withheld
  b:
  a:
  c:
generation 4
  b:
  a: 0_0 0_2
  c: 0_1
