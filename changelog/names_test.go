package changelog

import (
	"fmt"
	"strings"
	"testing"
)

func ExampleChangelog() {
	fmt.Println(Changelog("shop", "revenue", 0))
	fmt.Println(Changelog("shop", "revenue", 2))
	fmt.Println(Repartition("shop", "by-city", 0))
	fmt.Println(Repartition("shop", "by-city", 1))
	// Output:
	// shop-revenue-changelog
	// shop-revenue-v2-changelog
	// shop-by-city-repartition
	// shop-by-city-v1-repartition
}

func TestRepartitionEndsOnce(t *testing.T) {
	if got := Repartition("a", "x-repartition", 0); got != "a-x-repartition" {
		t.Error(got)
	}
	if got := Repartition("a", "x-repartition", 3); got != "a-x-v3-repartition" {
		t.Error(got)
	}
}

func TestValidName(t *testing.T) {
	for _, ok := range []string{"a", "A.b_c-9", "...", strings.Repeat("x", 249)} {
		if err := ValidName(ok); err != nil {
			t.Errorf("%q: %v", ok, err)
		}
	}
	for _, bad := range []string{"", ".", "..", "a b", "a/b", "ä", "a\x00", "a:b", strings.Repeat("x", 250), "\xff"} {
		if ValidName(bad) == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
