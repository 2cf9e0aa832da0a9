# A rolling deploy of a build whose second sub-topology keeps its state
# differently, and which numbers both differently. The untouched one is shared
# by all members throughout. The changed one switches when most members know
# the new build, once.

topics orders=4 clicks=2
build v1 0:orders:stateful:a 1:clicks:stateful:b
build v2 1:orders:stateful:a 0:clicks:stateful:c
join a build=v1
join b build=v1
join c build=v1
settle
----
generation 1
  a: 0_1 1_0
  b: 0_2 1_1
  c: 0_0 0_3

work 100
kill a
settle
----
generation 2
  b: 0_1(lag 100) 0_2 1_1
  c: 0_0 0_3 1_0(lag 100)

join a build=v2
settle
----
generation 3, 2 partitions withheld
  b: 0_2 1_1
  c: 0_0 1_0(lag 100)
  a:
generation 4
  b: 0_2 1_1
  c: 0_0 1_0(lag 100)
  a: 1_1 1_3(lag 100)

kill b
settle
----
generation 5
  c: 0_0 1_0(lag 100) 1_1(lag 100)
  a: 1_1 1_2(lag 100) 1_3(lag 100)

join b build=v2
settle
----
generation 6, 3 partitions withheld
  c: 0_0
  a: 1_1 1_2(lag 100)
  b:
generation 7
  c: 0_0 0_3
  a: 1_1 1_2(lag 100)
  b: 0_0(lag 100) 0_1

kill c
settle
----
generation 8
  a: 1_1 1_2(lag 100) 1_3(lag 100)
  b: 0_0(lag 100) 0_1 1_0(lag 100)

join c build=v2
settle
----
generation 9, 2 partitions withheld
  a: 1_1 1_2(lag 100)
  b: 0_0(lag 100) 0_1
  c:
generation 10
  a: 1_1 1_2(lag 100)
  b: 0_0(lag 100) 0_1
  c: 1_0 1_3
