# One member, then three, then two. What stays is never taken away, not even
# for the moment of the first phase.

topics orders=6
build v1 0:orders:stateful:1
join a build=v1
settle
----
generation 1
  a: 0_0 0_1 0_2 0_3 0_4 0_5

work 100
join b build=v1
join c build=v1
settle
----
generation 2, 4 partitions withheld
  a: 0_0 0_3
  b:
  c:
generation 3
  a: 0_0 0_3
  b: 0_1(lag 100) 0_4(lag 100)
  c: 0_2(lag 100) 0_5(lag 100)

work 100
kill b
settle
----
generation 4
  a: 0_0 0_3 0_4(lag 100)
  c: 0_1(lag 200) 0_2 0_5
