package kolk

import (
	"context"
	"errors"
	"log/slog"
	"net"

	"github.com/kolkstreams/kolk/changelog"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

func isOutOfRange(err error) bool { return errors.Is(err, kerr.OffsetOutOfRange) }

func isGone(err error) bool {
	return errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, kerr.InconsistentTopicID)
}

func isDenied(err error) bool { return errors.Is(err, kerr.TopicAuthorizationFailed) }

// passes says that an error will be gone by itself: the broker said so, or could not be reached.
func passes(err error) bool {
	if _, ours := errors.AsType[*TopicError](err); ours {
		return false
	}
	if _, ours := errors.AsType[*changelog.TopicError](err); ours {
		return false
	}
	_, network := errors.AsType[net.Error](err)
	// A broker whose disk or coordinator is in trouble may say no more than that it did not expect it.
	return network || kerr.IsRetriable(err) || kgo.IsRetryableBrokerErr(err) || errors.Is(err, kerr.UnknownServerError)
}

// clientLogger passes on what the Kafka client has to say, from warnings up; all of it at debug level.
type clientLogger struct{ to *slog.Logger }

// Level implements kgo.Logger.
func (l clientLogger) Level() kgo.LogLevel {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		return kgo.LogLevelDebug
	}
	return kgo.LogLevelWarn
}

// Log implements kgo.Logger. Warnings of the client are about what it retries by itself, so they are information to us.
func (l clientLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	to := slog.LevelDebug
	switch level {
	case kgo.LogLevelError:
		to = slog.LevelWarn
	case kgo.LogLevelWarn:
		to = slog.LevelInfo
	}
	l.to.Log(context.Background(), to, "kafka client: "+msg, keyvals...)
}
