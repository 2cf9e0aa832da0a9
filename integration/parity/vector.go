package parity

import (
	"compress/gzip"
	"embed"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed testdata
var embedded embed.FS

// Required are the families that must pass as a whole.
var Required = []string{"stateless", "kv-aggregate", "table", "flow", "stream-table", "table-table", "foreign-key", "versioned", "stream-global", "tumbling", "hopping", "sliding", "session", "suppress", "cogroup", "stream-stream", "primitives"}

// Case is a topology with its input and what Kafka Streams made of it.
type Case struct {
	ID        string              `json:"id"`
	Family    string              `json:"family"`
	Topology  []Node              `json:"topology"`
	Input     []Sent              `json:"input"`
	Output    []Got               `json:"output"`
	Changelog map[string][]Got    `json:"changelog"`
	Stores    map[string][]Stored `json:"stores"`
	Dropped   map[string]int      `json:"dropped"`
}

// Node is a node of a topology. Which fields count depends on the operator.
type Node struct {
	ID        string   `json:"id"`
	Op        string   `json:"op"`
	From      string   `json:"from"`
	With      string   `json:"with"`
	Topic     string   `json:"topic"`
	Topics    []string `json:"topics"`
	Store     string   `json:"store"`
	StoreType string   `json:"storeType"`
	History   int64    `json:"historyMs"`
	Name      string   `json:"name"`
	Grace     int64    `json:"graceMs"`
	Fn        string   `json:"fn"`
	KeyFn     string   `json:"keyFn"`
	ValueFn   string   `json:"valueFn"`
	Preds     []string `json:"preds"`
	Groups    []string `json:"groups"`
	Emit      string   `json:"emit"` // "close" for results when a window closes
	// Times are in ms.
	Size       int64 `json:"sizeMs"`
	Advance    int64 `json:"advanceMs"`
	Difference int64 `json:"differenceMs"`
	Gap        int64 `json:"gapMs"`
	Limit      int64 `json:"limitMs"`
	MaxRecords int64 `json:"maxRecords"`
	Before     int64 `json:"beforeMs"`
	After      int64 `json:"afterMs"`
}

// Sent is an input record. Null is nil.
type Sent struct {
	Topic   string     `json:"topic"`
	Key     *string    `json:"key"`
	Value   *string    `json:"value"`
	Time    int64      `json:"ts"`
	Headers [][]string `json:"headers"`
}

// Got is a record that was written.
type Got struct {
	In      int        `json:"in"`
	Topic   string     `json:"topic"`
	Key     *[]byte    `json:"keyBytes"`
	Value   *[]byte    `json:"valueBytes"`
	Time    int64      `json:"ts"`      // 0 in the changelogs of suppressions, whose records get the time of their sending
	Headers [][]string `json:"headers"` // values in base64
}

// Stored is a row of a store.
type Stored struct {
	Key   any   `json:"key"` // text, or an object for a key in a window
	Value any   `json:"value"`
	Time  int64 `json:"ts"` // -1 if the store keeps none
}

// others says that KOLK_PARITY names other vectors.
func others() bool { return os.Getenv("KOLK_PARITY") != "" }

// Vectors are where the vectors lie: in the directory that KOLK_PARITY names, or in this package.
func Vectors() (fs.FS, error) {
	if dir := os.Getenv("KOLK_PARITY"); others() {
		info, err := os.Stat(dir)
		if err == nil && !info.IsDir() {
			err = errors.New("not a directory")
		}
		if err != nil {
			return nil, fmt.Errorf("KOLK_PARITY=%s: %w", dir, err)
		}
		return os.DirFS(dir), nil
	}
	return fs.Sub(embedded, "testdata")
}

// Families are the names of the vectors' files, without what follows the first dot, in order.
func Families(vectors fs.FS) ([]string, error) {
	files, err := fs.ReadDir(vectors, ".")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, f := range files {
		if name, ext, _ := strings.Cut(f.Name(), "."); (ext == "json.gz" || ext == "json") && !f.IsDir() {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, errors.New("there are no vectors: no file ends in .json or .json.gz")
	}
	return out, nil
}

// read decodes the file of a family into v.
func read(vectors fs.FS, family string, v any) error {
	name := family + ".json"
	f, err := vectors.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		name += ".gz"
		f, err = vectors.Open(name)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := io.Reader(f)
	if path.Ext(name) == ".gz" {
		if in, err = gzip.NewReader(f); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := json.UnmarshalRead(in, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
