package changelog

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRestoreEmptyLog(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	k.restore(FromStart, map[string]string{})
	k.restore(0, map[string]string{})
}

func TestRestoreOneRecord(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	k.produce(k.producer(""), row("a", "1"))
	k.restore(FromStart, map[string]string{"a": "1"})
	k.restore(0, map[string]string{"a": "1"})
	if s := k.restore(1, map[string]string{}); s.calls != 0 {
		t.Errorf("apply was called %d times although the store is at the end", s.calls)
	}
}

func TestRestoreKeepsWhatARecordHolds(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	full := row("a", "1")
	full.Headers = []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "h", Value: nil}}
	empty := row("b", "")
	empty.Value = []byte{}
	k.produce(k.producer(""), full, empty, row("c", ""))
	var got []string
	_, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 3}, func(rs []Record) error {
		for _, r := range rs {
			got = append(got, fmt.Sprintf("%s=%q nil:%t @%d %d %v", r.Key, r.Value, r.Value == nil, r.Offset, r.Timestamp, r.Headers))
		}
		return nil
	}, nil)
	want := []string{`a="1" nil:false @0 1000 [{h [120]} {h []}]`, `b="" nil:false @1 1000 []`, `c="" nil:true @2 1000 []`}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRestoreMarkersAndAbortedRecordsAtTheEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	tx := k.producer("tx")
	k.begin(tx, row("a", "1"), row("b", "1"))
	k.end(tx, kgo.TryCommit)
	k.restore(FromStart, map[string]string{"a": "1", "b": "1"}) // ends with a commit marker
	k.begin(tx, row("a", "bad"), row("c", "bad"))
	k.end(tx, kgo.TryAbort)
	s := k.restore(FromStart, map[string]string{"a": "1", "b": "1"}) // ends with aborted records and their marker
	if want := []int64{0, 1}; !slices.Equal(s.offsets, want) {
		t.Errorf("offsets %v, want %v", s.offsets, want)
	}
	k.begin(tx, row("b", ""), row("d", "2"))
	k.end(tx, kgo.TryCommit)
	k.restore(FromStart, map[string]string{"a": "1", "d": "2"})
	k.restore(3, map[string]string{"d": "2"})
	k.restore(4, map[string]string{"d": "2"}) // from among the aborted records
}

// A dead predecessor's open transaction lies before committed records (RS07): the restore waits for it, and then has them.
func TestRestoreWaitsForAnOpenTransaction(t *testing.T) {
	for _, outcome := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		t.Run(fmt.Sprint("commit=", outcome), func(t *testing.T) {
			t.Parallel()
			k := newKit(t, Config{})
			k.create(logTopic, 1, nil)
			old, successor := k.producer("old"), k.producer("new")
			k.begin(old, row("x", "10"))
			k.begin(successor, row("y", "12"))
			k.end(successor, kgo.TryCommit)
			_, end := k.ends(logTopic, 0)
			if end != 3 {
				t.Fatalf("end is %d, not the high watermark 3", end)
			}
			s := newTable()
			var p Progress
			type result struct {
				next int64
				err  error
			}
			done := make(chan result, 1)
			go func() {
				next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: FromStart, End: end}, s.apply, &p)
				done <- result{next, err}
			}()
			if err := until(t.Context(), "a stall", func() bool { return !p.State().StalledSince.IsZero() }); err != nil {
				t.Fatal(err)
			}
			select {
			case got := <-done:
				t.Fatalf("ended before the transaction did: %+v", got)
			default:
			}
			k.end(old, outcome)
			if got := <-done; got.err != nil || got.next != end {
				t.Fatalf("%+v, end %d", got, end)
			}
			if s.rows["y"] != "12" || (s.rows["x"] == "10") != (outcome == kgo.TryCommit) {
				t.Errorf("restored %v", s.rows)
			}
		})
	}
}

func TestRestoreCompactedLog(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, map[string]string{"delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0"})
	tx := k.producer("tx")
	for i := range 50 {
		k.begin(tx, row("a", fmt.Sprint(i)), row(fmt.Sprint("k", i%3), fmt.Sprint(i)))
		k.end(tx, kgo.TryCommit)
	}
	k.begin(tx, row("k0", ""), row("k1", ""))
	k.end(tx, kgo.TryCommit)
	k.cluster.Compact()
	s := k.restore(FromStart, map[string]string{"a": "49", "k2": "47"})
	if len(s.offsets) > 20 {
		t.Errorf("%d records read, the log is not compacted", len(s.offsets))
	}
	k.restore(10, map[string]string{"a": "49", "k2": "47"}) // from inside a hole; the log has moved its start for kfake
}

func TestRestoreEmptiedLog(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, map[string]string{cleanupPolicy: deleting})
	k.produce(k.producer(""), row("a", "1"), row("b", "1"))
	k.cluster.DeleteRecords(logTopic, 0, 2)
	if start, end := k.ends(logTopic, 0); start != 2 || end != 2 {
		t.Fatalf("log is %d to %d", start, end)
	}
	k.restore(FromStart, map[string]string{})
	k.restore(2, map[string]string{})
	// Everything up to the end was deleted after the end was asked for.
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: FromStart, End: 1}, newTable().apply, nil)
	if err != nil || next != 2 {
		t.Errorf("next %d, %v", next, err)
	}
}

func TestRestoreTruncatedStart(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, map[string]string{cleanupPolicy: deleting})
	client := k.producer("")
	for i := range 10 {
		k.produce(client, row("a", fmt.Sprint(i)))
	}
	k.cluster.DeleteRecords(logTopic, 0, 5)
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: 3, End: 10}, newTable().apply, nil)
	if !errors.Is(err, ErrTruncated) || next != 3 || !strings.Contains(err.Error(), "begins at 5") {
		t.Errorf("next %d, %v", next, err)
	}
	k.restore(FromStart, map[string]string{"a": "9"})
}

func TestRestorePastTheEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	k.produce(k.producer(""), row("a", "1"))
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: 9, End: 1}, newTable().apply, nil)
	if !errors.Is(err, ErrDiverged) || next != 9 {
		t.Errorf("next %d, %v", next, err)
	}
	// The end was right when it was asked for, and the log has lost it since.
	if _, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: 5, End: 9}, newTable().apply, nil); !errors.Is(err, ErrDiverged) {
		t.Error(err)
	}
}

func TestRestoreStopsAtItsEnd(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	k.produce(k.producer(""), row("a", "1"), row("b", "2"), row("c", "3"), row("d", "4")) // one batch
	s := newTable()
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, From: 1, End: 3}, s.apply, nil)
	if err != nil || next != 3 || !slices.Equal(s.offsets, []int64{1, 2}) {
		t.Errorf("next %d, offsets %v, %v", next, s.offsets, err)
	}
}

func TestRestoreRecreatedTopic(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{FetchBytes: 1})
	k.create(logTopic, 1, nil)
	client := k.producer("")
	k.produce(client, row("a", "1"), row("b", "1"))
	id, err := k.reader.TopicID(t.Context(), logTopic)
	if err != nil || id == ([16]byte{}) {
		t.Fatal(id, err)
	}
	// The topic goes while the store applies its first batch, and comes back.
	for i := range 4 {
		big := row(fmt.Sprint("big", i), strings.Repeat("x", 900_000))
		k.produce(client, big)
	}
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, ID: id, End: 6}, func(rs []Record) error {
		if rs[0].Offset == 0 {
			if _, err := k.adm.DeleteTopics(t.Context(), logTopic); err != nil {
				return err
			}
			k.create(logTopic, 1, nil)
		}
		return nil
	}, nil)
	if !errors.Is(err, ErrRecreated) || next == 6 {
		t.Errorf("next %d, %v", next, err)
	}
	for _, from := range []int64{0, 2, FromStart} { // with and without something to read
		if _, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, ID: id, From: from, End: 2}, newTable().apply, nil); !errors.Is(err, ErrRecreated) {
			t.Errorf("from %d: %v", from, err)
		}
	}
}

func TestRestoreApplyFails(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	client := k.producer("")
	for i := range 6 {
		k.produce(client, row(fmt.Sprint(i), strings.Repeat("x", 900_000)))
	}
	full := errors.New("disk is full")
	var applied []int64
	next, err := k.reader.Restore(t.Context(), Part{Topic: logTopic, End: 6}, func(rs []Record) error {
		if rs[0].Offset >= 4 {
			return full
		}
		for _, r := range rs {
			applied = append(applied, r.Offset)
		}
		return nil
	}, nil)
	if !errors.Is(err, full) || next != int64(len(applied)) {
		t.Errorf("next %d after %v, %v", next, applied, err)
	}
	for _, part := range []string{logTopic + "/0", "of 6", "disk is full"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestRestoreCompressed(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	k.create(logTopic, 1, nil)
	want := map[string]string{}
	for name, codec := range map[string]kgo.CompressionCodec{"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(), "snappy": kgo.SnappyCompression(), "gzip": kgo.GzipCompression()} {
		want[name] = strings.Repeat(name, 10_000)
		k.produce(k.producer("", kgo.ProducerBatchCompression(codec)), row(name, want[name]))
	}
	k.restore(FromStart, want)
}

// A batch larger than a fetch's bound comes as a whole.
func TestRestoreHugeBatch(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{FetchBytes: 1})
	k.create(logTopic, 1, map[string]string{"max.message.bytes": "20000000"})
	client := k.producer("", kgo.ProducerBatchMaxBytes(16<<20), kgo.BrokerMaxWriteBytes(32<<20))
	huge := strings.Repeat("x", 12<<20)
	k.produce(client, row("a", huge))
	k.produce(client, row("b", "1"))
	k.restore(FromStart, map[string]string{"a": huge, "b": "1"})
}

func TestRestoreUnknownTopic(t *testing.T) {
	t.Parallel()
	k := newKit(t, Config{})
	if _, _, err := k.reader.End(t.Context(), "nowhere", 0); err == nil || !strings.Contains(err.Error(), "nowhere/0") {
		t.Error(err)
	}
	if _, err := k.reader.TopicID(t.Context(), "nowhere"); err == nil {
		t.Error("an unknown topic has an id")
	}
}

func TestNewReaderRefusesNegatives(t *testing.T) {
	for _, c := range []Config{{FetchBytes: -1}, {Timeout: -1}, {StallAfter: -1}} {
		if _, err := NewReader(c); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}
