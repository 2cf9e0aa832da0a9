package topology

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/kolkstreams/kolk/internal/engine"
)

// Topology is a checked, immutable graph. It may be used by many goroutines.
type Topology struct {
	graph
	parts   []part
	version int
}

type graph = engine.Held

// Fingerprint identifies what must not change under existing state: names, kinds and serdes of stores, serdes as far as they can tell, repartition topics with
// their partitions, versions. It is 64 hexadecimal digits. Equal topologies have equal fingerprints on every machine; names of nodes, sinks and functions do not count.
func (t *Topology) Fingerprint() string {
	var lines []string
	for _, p := range t.parts {
		for _, d := range p.stores {
			lines = append(lines, fmt.Sprintf("store %s %s source=%s", d.Full(), engine.Print(d), d.Source))
		}
		for _, n := range p.nodes {
			if n.kind == source && n.topic.Repartition {
				lines = append(lines, fmt.Sprintf("repartition %s partitions=%d", n.topic.Full(""), n.partitions))
			}
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(fmt.Sprintf("version %d\n%s", t.version, strings.Join(lines, "\n"))))
	return hex.EncodeToString(sum[:])
}
