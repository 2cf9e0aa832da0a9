package exactlyonce

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The package page shows the table as it is.
func TestTableIsDocumented(t *testing.T) {
	src, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	head, tail, ok := strings.Cut(string(src), "//\t"+tableHead+"\n")
	if !ok {
		t.Fatalf("doc.go has no line %q", tableHead)
	}
	_, rest, ok := strings.Cut(tail, "package exactlyonce\n")
	if !ok {
		t.Fatal("doc.go has no package clause")
	}
	want := head + renderTable() + "package exactlyonce\n" + rest
	if *rewrite {
		if err := os.WriteFile("doc.go", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(src) {
		t.Error("the table in doc.go is not the one of errors.go: go test -run TableIsDocumented -rewrite")
	}
}

const tableHead = "request            error                                  meaning"

func renderTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "//\t%s\n", tableHead)
	last := reqNone
	for _, row := range Table() {
		name := ""
		if row.Request != last {
			name, last = row.Request.String(), row.Request
		}
		what := row.Err.Error()
		if ke, ok := row.Err.(*kerr.Error); ok {
			what = ke.Message
		}
		means := row.Meaning.String()
		if row.Then != 0 && row.Then != row.Meaning {
			means += ", " + row.Then.String()
		}
		fmt.Fprintf(&b, "//\t%-18s %-38s %s: %s\n", name, what, means, row.Why)
	}
	return b.String()
}

func TestProduceError(t *testing.T) {
	r := &kgo.Record{Topic: "out", Partition: 3, Key: []byte("key"), Value: []byte("value"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("vv")}}}
	err := error(produceError(r, kerr.MessageTooLarge))
	if !errors.Is(err, kerr.MessageTooLarge) {
		t.Fatal("the cause is lost")
	}
	want := "producing to out partition 3 (key 3 bytes, record 11 bytes): " + kerr.MessageTooLarge.Error()
	if err.Error() != want {
		t.Fatalf("%q, want %q", err, want)
	}
}

func TestWorst(t *testing.T) {
	for _, tt := range []struct {
		codes []*kerr.Error
		want  error
	}{
		{[]*kerr.Error{kerr.NotCoordinator, kerr.UnknownMemberID, kerr.IllegalGeneration}, kerr.UnknownMemberID},
		{[]*kerr.Error{kerr.ConcurrentTransactions, kerr.NotCoordinator}, kerr.ConcurrentTransactions},
		{[]*kerr.Error{kerr.ConcurrentTransactions, kerr.TopicAuthorizationFailed}, kerr.TopicAuthorizationFailed},
	} {
		var w worst
		w.add("in", 0, 0)
		for i, c := range tt.codes {
			w.add("in", int32(i), c.Code)
		}
		if err := w.complete("asking", len(tt.codes)+1); !errors.Is(err, tt.want) {
			t.Errorf("%v, want %v", err, tt.want)
		}
	}
	var w worst
	w.add("in", 0, 0)
	if w.complete("asking", 1) != nil || w.complete("asking", 2) == nil {
		t.Error("a partition that the broker leaves out is an error")
	}
}

func TestSplitMetadata(t *testing.T) {
	d := &Driver{stamp: 41, sent: []Offset{{Metadata: "mine"}, {}}}
	d.stampOffsets()
	d.stampOffsets() // sending again
	if len(d.sent[0].Metadata) != 4+MetadataOverhead || SplitMetadata(d.sent[0].Metadata) != "mine" || SplitMetadata(d.sent[1].Metadata) != "" {
		t.Fatalf("%+v", d.sent)
	}
	for _, foreign := range []string{"", "x", "AgAAAZX/+xQ=", "~", strings.Repeat("a", 40), "~not base64 "} {
		if got := SplitMetadata(foreign); got != foreign {
			t.Errorf("%q became %q", foreign, got)
		}
	}
}
