# A static member that missed the rebalance of its own absence comes back to
# its tasks: everybody else has its share already.

topics orders=3 clicks=3
build v1 0:orders:stateful:1 1:clicks:stateless:2
join a build=v1 instance=i-a
join b build=v1 instance=i-b
join c build=v1 instance=i-c
settle
----
generation 1
  a: 0_0 1_0
  b: 0_1 1_1
  c: 0_2 1_2

work 10
kill b
join b build=v1 instance=i-b
settle
----
generation 2
  a: 0_0 1_0
  c: 0_2 1_2
  b: 0_1 1_1

# One that is back before its session ends gets its assignment repeated, and
# nothing happens.

restart b build=v1
settle
----
generation 2
  a: 0_0 1_0
  c: 0_2 1_2
  b: 0_1 1_1

# With another build it has to ask for a rebalance: the broker does not see it.

build v2 0:orders:stateful:1
restart b build=v2
settle
----
generation 2
  a: 0_0 1_0
  c: 0_2 1_2
  b: 0_1 (rejoins)
generation 3, 1 partitions withheld
  a: 0_0 1_0
  c: 0_2 1_2
  b: 0_1
generation 4
  a: 0_0 1_0 1_1
  c: 0_2 1_2
  b: 0_1

# If it had something to give up when it died, nobody else would ask either.

join d build=v1
round
restart a build=v1
settle
----
generation 5, 1 partitions withheld
  a: 0_0 1_1
  c: 0_2 1_2
  b: 0_1
  d:
generation 5, 1 partitions withheld
  a: 0_0 1_1 (rejoins)
  c: 0_2 1_2
  b: 0_1
  d:
generation 6
  a: 0_0 1_1
  c: 0_2 1_2
  b: 0_1
  d: 1_0
