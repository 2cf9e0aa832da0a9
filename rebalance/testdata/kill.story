# The tasks of a dead member go to the others at once: nobody claims them, so
# there is nothing to wait for.

topics orders=4 clicks=4
build v1 0:orders:stateful:1 1:clicks:stateless:2
join a build=v1
join b build=v1
settle
----
generation 1
  a: 0_0 0_2 1_0 1_2
  b: 0_1 0_3 1_1 1_3

work 1000
kill a
settle
----
generation 2
  b: 0_0(lag 1000) 0_1 0_2(lag 1000) 0_3 1_0 1_1 1_2 1_3

# The leader's death is no different, and its successor continues its plan.

join c build=v1
settle
----
generation 3, 4 partitions withheld
  b: 0_1 0_3 1_0 1_2
  c:
generation 4
  b: 0_1 0_3 1_0 1_2
  c: 0_0(lag 1000) 0_2(lag 1000) 1_1 1_3

kill b
settle
----
generation 5
  c: 0_0(lag 1000) 0_1(lag 1000) 0_2(lag 1000) 0_3(lag 1000) 1_0 1_1 1_2 1_3
