package storetest

import (
	"maps"
	"math"
	"slices"
)

// version is a value from a time on; nil is a delete.
type version struct {
	from  int64
	value []byte
}

// versions is what a versioned store should hold: everything that was ever taken, in order of time for each key.
type versions struct {
	keys     map[string][]version
	observed int64
}

func newVersions() *versions {
	return &versions{keys: make(map[string][]version), observed: math.MinInt64}
}

func (m *versions) clone() *versions {
	c := &versions{keys: maps.Clone(m.keys), observed: m.observed}
	for k, list := range c.keys {
		c.keys[k] = slices.Clone(list)
	}
	return c
}

func (m *versions) oldest(history int64) int64 {
	if m.observed == math.MinInt64 {
		return math.MinInt64
	}
	return m.observed - history
}

// put says whether the version was taken, and whether it is the newest of its key.
func (m *versions) put(key string, value []byte, at, history int64) (taken, newest bool) {
	m.observed = max(m.observed, at)
	if at < m.oldest(history) {
		return false, false
	}
	list := m.keys[key]
	i, found := slices.BinarySearchFunc(list, at, func(v version, at int64) int { return int(v.from - at) })
	if found {
		list[i].value = value
	} else {
		list = slices.Insert(list, i, version{at, value})
	}
	m.keys[key] = list
	return true, i == len(list)-1
}

// at is the version valid at a time, and when it ends; no is that there is none.
func (m *versions) at(key string, at, history int64) (v version, to int64, ok bool) {
	list := m.keys[key]
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].from > at {
			continue
		}
		if i == len(list)-1 {
			return list[i], -1, list[i].value != nil
		}
		return list[i], list[i+1].from, at >= m.oldest(history) && list[i].value != nil
	}
	return version{}, 0, false
}

// live is the keys whose newest version is a value.
func (m *versions) live() (keys []string) {
	for k, list := range m.keys {
		if list[len(list)-1].value != nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}
