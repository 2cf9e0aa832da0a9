// Package java builds the Kafka Streams program of the benchmark.
package java

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/kolkstreams/kolk/integration/maven"
)

//go:embed pom.xml src
var files embed.FS

// Build compiles the program below cacheDir, unless that was done before, and returns the command that runs it. What the command takes is the contract of
// package contract.
func Build(ctx context.Context, cacheDir string) ([]string, error) {
	pom, sources, err := read()
	if err != nil {
		return nil, err
	}
	classpath, err := maven.Build(ctx, cacheDir, "streams", pom, sources)
	if err != nil {
		return nil, fmt.Errorf("build the Kafka Streams contender: %w", err)
	}
	return []string{"java", "-Xmx2g", "-cp", classpath, "contender.Main"}, nil
}

// read takes the embedded files apart.
func read() (pom []byte, sources map[string][]byte, err error) {
	sources = map[string][]byte{}
	err = fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := files.ReadFile(path)
		if path == "pom.xml" {
			pom = content
		} else {
			sources[path] = content
		}
		return err
	})
	return pom, sources, err
}
