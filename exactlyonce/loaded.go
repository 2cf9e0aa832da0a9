package exactlyonce

import "time"

// A client sends the records that waited for a new topic before it stores that topic's partitions. The end of a transaction resets the
// sequence numbers of the partitions it finds stored: one that comes a moment later keeps its number, and the first record
// of the next transaction is refused as out of order. So the first transaction on a topic waits for that moment.
const (
	loadLimit = 100 * time.Millisecond // the moment is some microseconds; past the limit the transaction is replayed at worst
	loadPause = 100 * time.Microsecond
)

// loaded are the topics that the client has been seen to know.
type loaded struct {
	last   string // topic of the last record: most follow one of the same
	topics map[string]bool
	fresh  []string // produced to since the last transaction ended, for the first time
}

func (l *loaded) note(topic string) {
	if topic == l.last {
		return
	}
	l.last = topic
	if !l.topics[topic] {
		if l.topics == nil {
			l.topics = make(map[string]bool)
		}
		l.topics[topic] = true
		l.fresh = append(l.fresh, topic)
	}
}

// settle waits until leader knows every fresh topic. All partitions of a topic are stored at once, so the first stands for all.
func (l *loaded) settle(leader func(topic string) int32) {
	deadline := time.Now().Add(loadLimit)
	for _, t := range l.fresh {
		for leader(t) < 0 && time.Now().Before(deadline) {
			time.Sleep(loadPause)
		}
	}
	l.fresh = l.fresh[:0]
}
