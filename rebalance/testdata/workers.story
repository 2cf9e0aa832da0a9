# Three workers get three times the tasks of one.

topics orders=8
build v1 0:orders:stateful:1
join small build=v1
join large build=v1 workers=3
settle
----
generation 1
  small: 0_2 0_6
  large: 0_0 0_1 0_3 0_4 0_5 0_7
