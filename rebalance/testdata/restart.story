# A process that comes back with its directory gets the tasks whose state it
# has, although it had been away for a while.

topics orders=6
build v1 0:orders:stateful:1
join a build=v1
join b build=v1
join c build=v1
settle
----
generation 1
  a: 0_0 0_3
  b: 0_1 0_4
  c: 0_2 0_5

work 1000
force
settle
----
generation 2
  a: 0_0 0_3
  b: 0_1 0_4
  c: 0_2 0_5

kill a
settle
----
generation 3
  b: 0_0(lag 1000) 0_1 0_4
  c: 0_2 0_3(lag 1000) 0_5

work 50
join a build=v1
settle
----
generation 4, 2 partitions withheld
  b: 0_1 0_4
  c: 0_2 0_5
  a:
generation 5
  b: 0_1 0_4
  c: 0_2 0_5
  a: 0_0(lag 50) 0_3(lag 50)

# Without its directory any tasks will do.

kill b
wipe b
settle
----
generation 6
  c: 0_1(lag 1050) 0_2 0_5
  a: 0_0(lag 50) 0_3(lag 50) 0_4(lag 1050)

join b build=v1
settle
----
generation 7, 2 partitions withheld
  c: 0_2 0_5
  a: 0_0(lag 50) 0_3(lag 50)
  b:
generation 8
  c: 0_2 0_5
  a: 0_0(lag 50) 0_3(lag 50)
  b: 0_1(lag 1050) 0_4(lag 1050)
