// Package maven fetches the jars of a small pom.xml, and compiles Java sources beside it, with the mvn found on PATH.
//
// Results are kept in a cache outside the repository and named by the hash of what they were made from: the same content never starts Maven twice, changed
// content never meets old classes, and builds that run at the same time do not disturb each other.
package maven

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// ErrMissing is in the error of Build when java or mvn is not there. Its text says how to install them.
var ErrMissing = errors.New("a JDK (17 or later) and Maven are needed; on Debian and Ubuntu: apt-get install default-jdk-headless maven; " +
	"on macOS: brew install openjdk maven; KAFKA=host:port names a running cluster, for all but the tests that stop brokers")

// CacheDir is where jars and binaries are kept between runs: KOLK_CACHE, or the folder kolk in the user's cache directory.
func CacheDir() (string, error) {
	if dir := os.Getenv("KOLK_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for jars: %w; name one with KOLK_CACHE", err)
	}
	return filepath.Join(dir, "kolk"), nil
}

// Build fetches the dependencies of a pom, compiles the sources (path to content, may be nil) and returns a Java class path of both. The result is kept below
// cacheDir under the given name.
func Build(ctx context.Context, cacheDir, name string, pom []byte, sources map[string][]byte) (classpath string, err error) {
	for _, tool := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(tool); err != nil {
			return "", fmt.Errorf("%s is not on PATH: %w (%w)", tool, ErrMissing, err)
		}
	}
	files := map[string][]byte{"pom.xml": pom}
	maps.Copy(files, sources)
	dir := filepath.Join(cacheDir, name+"-"+hash(files))
	classpath = filepath.Join(dir, "target", "classes") + string(os.PathListSeparator) + filepath.Join(dir, "libs", "*")
	if _, err := os.Stat(dir); err == nil {
		return classpath, nil
	}
	if err := os.MkdirAll(cacheDir, 0o755); err != nil {
		return "", err
	}
	// Built aside and renamed when whole, so that a build that was interrupted leaves nothing that looks finished.
	aside, err := os.MkdirTemp(cacheDir, name+"-building-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(aside)) }()
	if err := compile(ctx, aside, files); err != nil {
		return "", err
	}
	if err := os.Rename(aside, dir); err != nil && !errors.Is(err, fs.ErrExist) { // another process may have been first
		return "", err
	}
	return classpath, nil
}

// hash names the content of files.
func hash(files map[string][]byte) string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(h, "%q %d\n", name, len(files[name]))
		h.Write(files[name])
	}
	return fmt.Sprintf("%x", h.Sum(nil))[:12]
}

// compile writes the files to dir and runs Maven there.
func compile(ctx context.Context, dir string, files map[string][]byte) error {
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	args := []string{"-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=libs"}
	if len(files) > 1 {
		args = append(args, "compile")
	}
	cmd := exec.CommandContext(ctx, "mvn", args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn in %s: %w\n%s", dir, err, out)
	}
	return nil
}
