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
