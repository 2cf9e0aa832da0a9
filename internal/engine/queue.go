package engine

// Reader is the typed end of an input: it decodes records and hands them to the operators.
type Reader interface {
	// Decode decodes r and keeps key and value until Process or the next Decode. It returns the event time; false if the record was
	// dropped, which it has counted.
	Decode(r *Record) (at int64, ok bool)
	// Process hands what Decode kept to the operators.
	Process(r *Rec)
}

// queue holds the fetched records of one input partition. Records are decoded when they become the head: a bad one fails in its turn.
type queue struct {
	reader Reader
	recs   []Record
	head   int
	known  bool  // the head is decoded, and time is its event time
	time   int64 // of the head
	bytes  int   // that the records take, roughly
	// partitionTime is the largest event time taken from the partition.
	partitionTime int64
	// next is the offset to go on from: behind the last record that was taken or dropped, and behind what follows it without records.
	next int64
	// position is behind all that was fetched, end is where the partition ended when it was last heard of.
	position, end int64
	idleSince     int64 // wall clock since when the queue is empty and caught up while another has records; -1 if it is not
	// started is set by Start: an input topic with fewer partitions than the task's number has nothing to wait for.
	started bool
}

func (q *queue) len() int { return len(q.recs) - q.head }

// size is what a record takes of memory, roughly.
func (r *Record) size() int { return len(r.Key) + len(r.Value) + 100 }

// Start says where an input goes on: the next offset to read, the end of the partition as far as it is known, and what the offset's
// metadata said. It is called for every input, after the stores are restored.
func (t *Task) Start(input int, next, end int64, m Meta) {
	q := &t.queues[input]
	q.next, q.position, q.end, q.partitionTime, q.started = next, next, end, m.PartitionTime, true
	t.streamTime = max(t.streamTime, m.PartitionTime)
	for name, at := range m.Clocks {
		c := t.Clock(name)
		*c = max(*c, at)
	}
	if c := t.clocks[idleClock]; c != nil {
		t.streamTime = max(t.streamTime, *c)
	}
	t.saved = t.times()
	t.resumeTimers()
	for i := range t.expiry {
		t.expiry[i].next = boundary(max(t.streamTime, -1), t.expiry[i].bucket)
	}
}

// Skip says that an input without a committed offset was started behind records that are not to be read. The task commits where it begins, also if no record comes: until
// there is an offset, a restart would leave out what has come meanwhile, and others could not know that the task is not behind.
func (t *Task) Skip() { t.skipped = true }

// Add takes fetched records of an input, in order of offset. position is where the next fetch goes on, which control records may put behind
// the last record; end is the partition's last stable offset as of the fetch. Records below what the input has reached already are left out.
func (t *Task) Add(input int, recs []Record, position, end int64) {
	q := &t.queues[input]
	for len(recs) > 0 && recs[0].Offset < q.position {
		recs = recs[1:]
	}
	if q.head > 0 && q.head >= q.len() { // a queue that never runs empty must not grow for ever
		n := copy(q.recs, q.recs[q.head:])
		clear(q.recs[n:])
		q.recs, q.head = q.recs[:n], 0
	}
	q.recs = append(q.recs, recs...)
	for i := range recs {
		q.bytes += recs[i].size()
	}
	q.position, q.end = max(q.position, position), max(q.end, end)
	switch {
	case q.len() > 0:
		q.idleSince, t.idle.since = -1, -1
	case q.next < q.position: // only control records: the next commit takes the offset past them
		q.next, t.moved = q.position, true
	}
}

// PartitionTime is the largest event time taken from an input's partition, ms; -1 if none was.
func (t *Task) PartitionTime(input int) int64 { return t.queues[input].partitionTime }

// BufferedBytes is about how much memory those records take.
func (t *Task) BufferedBytes(input int) int { return t.queues[input].bytes }

// Buffered is the number of records of an input that wait to be processed.
func (t *Task) Buffered(input int) int { return t.queues[input].len() }

// Next is the offset that a commit takes an input to: behind all that was processed.
func (t *Task) Next(input int) int64 { return t.queues[input].next }

// Position is the offset from which an input's next fetch goes on.
func (t *Task) Position(input int) int64 { return t.queues[input].position }

// Lag is the number of offsets between what was processed of an input and its end as far as it is known.
func (t *Task) Lag(input int) int64 { return max(0, t.queues[input].end-t.queues[input].next) }

// choose finds the input whose head is the oldest; -1 if there is none or the task waits for an empty input. Ties go to the input that
// was declared first, so that equal times do not depend on the speed of fetching.
func (t *Task) choose(wall int64) int {
	best, waits := -1, false
	for i := range t.queues {
		q := &t.queues[i]
		t.decodeHead(i)
		switch {
		case !q.known:
			waits = q.started && t.waitsFor(q, wall) || waits // each asked, so that all waits run at once
		case best < 0 || q.time < t.queues[best].time:
			best = i
		}
	}
	if best < 0 { // nothing waits for the empty ones: that they are empty does not count yet
		for i := range t.queues {
			t.queues[i].idleSince = -1
		}
	}
	if waits {
		return -1
	}
	return best
}

// waitsFor says whether the task must not go on without q, which is empty.
func (t *Task) waitsFor(q *queue, wall int64) bool {
	if t.env.MaxIdle < 0 {
		return false
	}
	if q.position < q.end {
		q.idleSince = -1
		return true
	}
	if q.idleSince < 0 || q.idleSince > wall { // the clock may be put back
		q.idleSince = wall
	}
	return wall-q.idleSince < t.env.MaxIdle
}

// decodeHead decodes until the queue has a head that is not dropped, or is empty.
func (t *Task) decodeHead(input int) {
	q := &t.queues[input]
	for !q.known && q.head < len(q.recs) {
		r := &q.recs[q.head]
		t.rec = Rec{Time: r.Time, NullKey: r.Key == nil, Headers: r.Headers, Input: input, Offset: r.Offset, RawKey: r.Key, RawValue: r.Value}
		t.at = t.Sub.Inputs[input].Node
		at, ok := q.reader.Decode(r)
		if ok && t.env.MaxAhead > 0 && at > saturate(max(t.env.Wall(), 0), t.env.MaxAhead) {
			t.Drop(t.Counter(t.Sub.Inputs[input].Node, "ahead"), &t.rec)
			ok = false
		}
		if ok {
			q.known, q.time = true, at
			return
		}
		t.took(q)
	}
}

// took moves past the head.
func (t *Task) took(q *queue) {
	q.next = q.recs[q.head].Offset + 1
	q.bytes -= q.recs[q.head].size()
	q.recs[q.head] = Record{} // let go of the bytes
	q.head++
	q.known = false
	t.moved = true
	if q.head == len(q.recs) {
		q.next = q.position
	}
}
