package changelog

import (
	"errors"
	"fmt"
	"strings"
)

// maxName is the longest name a Kafka topic can have, in bytes.
const maxName = 249

const (
	changelogSuffix   = "-changelog"
	repartitionSuffix = "-repartition"
)

// Changelog is the topic that holds the changes of a store: `<app>-<store>-changelog`, and with a version n of at least 1 `<app>-<store>-v<n>-changelog`.
// Version 0 is a store without a version.
func Changelog(app, store string, version int) string {
	return app + "-" + store + versionPart(version) + changelogSuffix
}

// Repartition is the topic that carries records from one sub-topology to another: `<app>-<name>-repartition`, and with a version n of at least 1
// `<app>-<name>-v<n>-repartition`. A name that ends in "-repartition" already does not get the ending twice.
func Repartition(app, name string, version int) string {
	return app + "-" + strings.TrimSuffix(name, repartitionSuffix) + versionPart(version) + repartitionSuffix
}

func versionPart(version int) string {
	if version == 0 {
		return ""
	}
	return fmt.Sprintf("-v%d", version)
}

// ValidName says what is wrong with the name of an application, a store, an operator or a topic, or nil: it may hold a-z, A-Z, 0-9, '.', '_' and '-', is not
// empty, not "." or "..", and has at most 249 characters. Names that are joined into a topic's must also fit as a whole, which [Ensure] checks.
func ValidName(name string) error {
	switch {
	case name == "":
		return errors.New("name is empty")
	case name == "." || name == "..":
		return fmt.Errorf("name %q is not allowed", name)
	case len(name) > maxName:
		return fmt.Errorf("name %q has %d characters, at most %d are allowed", name[:32]+"...", len(name), maxName)
	}
	for _, c := range name {
		if !validNameRune(c) {
			return fmt.Errorf("name %q holds %q; allowed are a-z, A-Z, 0-9, '.', '_' and '-'", name, c)
		}
	}
	return nil
}

func validNameRune(c rune) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-'
}
