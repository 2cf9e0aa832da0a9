package engine

// QueueCap is the room in an input's queue.
func QueueCap(t *Task, input int) int { return cap(t.queues[input].recs) }

// TimerCount is the number of timers that a task keeps.
func TimerCount(t *Task) int { return len(t.timers) }

// Murmur2 is the hash behind Partition.
var Murmur2 = murmur2
