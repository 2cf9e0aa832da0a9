package badgerstore

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

// Badger's warnings are passed on with the store that they are of, but for those of caches, which are small on purpose.
func TestLogger(t *testing.T) {
	var out bytes.Buffer
	l := logger{to: slog.New(slog.NewTextHandler(&out, nil)), dir: "state"}
	l.Warningf("%s might be too small. Metrics: %s\n", "Block cache", "hit: 1 miss: 2")
	l.Warningf("Cache life expectancy (in seconds): %s\n", "Histogram")
	l.Infof("opened")
	if out.Len() > 0 {
		t.Errorf("logged %s", &out)
	}
	l.Warningf("while running doCompact: %v\n", "disk")
	l.Errorf("failed: %v", "disk")
	for _, want := range []string{`level=WARN msg="badger: while running doCompact: disk" dir=state`, `level=ERROR msg="badger: failed: disk" dir=state`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is missing in %s", want, &out)
		}
	}
}
