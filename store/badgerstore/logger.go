package badgerstore

import (
	"fmt"
	"log/slog"
	"strings"
)

// logger passes on what Badger warns of. Its other messages tell of ordinary work and are dropped.
type logger struct {
	to  *slog.Logger
	dir string
}

func (l *logger) Errorf(format string, args ...any) {
	l.to.Error("badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)), "dir", l.dir)
}

// Warningf leaves out what Badger says of caches that are small on purpose, each minute, a page long.
func (l *logger) Warningf(format string, args ...any) {
	if strings.Contains(format, "might be too small") || strings.HasPrefix(format, "Cache life expectancy") {
		return
	}
	l.to.Warn("badger: "+strings.TrimSpace(fmt.Sprintf(format, args...)), "dir", l.dir)
}

func (l *logger) Infof(string, ...any) {}

func (l *logger) Debugf(string, ...any) {}
