package engine

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/logs"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

const (
	// logRoom is how many lines may wait for the log exchange; more are not
	// published.
	logRoom = 256
	// logLinesMax bounds what is published a second: lines that publishing lines
	// leads to, by a queue that cannot take them say, must not feed themselves.
	logLinesMax = 200
)

// publishLog publishes log lines to the log exchange. Who logs may hold any lock,
// so nothing of the broker is looked at before the line is here.
func (e *Engine) publishLog(f *logs.Follower, done chan<- struct{}) {
	defer close(done)
	properties := (&amqp.Properties{
		Flags: amqp.FlagContentType | amqp.FlagAppID, ContentType: []byte("text/plain"), AppID: []byte("basaltmq"),
	}).Append(nil)
	b := e.store.NewBatch()
	defer b.Release()
	second, published := int64(0), 0
	for {
		select {
		case line := <-f.C:
			vh := e.broker.VHost(broker.DefaultVHost)
			if vh == nil || !vh.HasBindings(broker.LogExchange) {
				continue
			}
			now := time.Now()
			if s := now.Unix(); s != second {
				second, published = s, 0
			}
			if published++; published > logLinesMax {
				continue
			}
			vh.Emit(b, broker.LogExchange, line.Severity, properties, []byte(line.Text), now.UnixMilli())
		case <-e.stop:
			return
		}
	}
}

// followLog begins to publish the log, if that is asked for.
func (e *Engine) followLog() {
	if e.config.Log == nil || !e.config.LogExchange {
		return
	}
	f := e.config.Log.Follow(logRoom)
	done := make(chan struct{})
	e.observed.unfollow = func() {
		e.config.Log.Leave(f)
		<-done
	}
	go e.publishLog(f, done)
}
