package tools

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agon-arena/agon"
)

// Search answers the three search tools. Implementations are safe for
// concurrent use, bound what they read, and return *Failure for every ending
// that is not an answer. They do not retry.
type Search interface {
	// Name is what receipts say of it.
	Name() string
	Web(ctx context.Context, q WebQuery) ([]WebHit, error)
	X(ctx context.Context, q XQuery) ([]Post, error)
	AI(ctx context.Context, q AIQuery) ([]AIHit, error)
	// Probe asks something harmless: the canary after a failure.
	Probe(ctx context.Context) error
}

// WebQuery is search_web. Num 0 means the back end's default.
type WebQuery struct {
	Query      string
	Num, Start int
}

// WebHit is one entry of search_web.
type WebHit struct {
	Link    string  `json:"link"`
	Snippet *string `json:"snippet,omitempty"`
	Title   *string `json:"title,omitempty"`
}

// XQuery is search_x. Nil and empty mean that the script gave nothing.
type XQuery struct {
	Query, Lang, Sort, User, StartDate, EndDate       string
	Count                                             int
	Verified, BlueVerified, IsQuote, IsVideo, IsImage *bool
	MinRetweets, MinReplies, MinLikes                 int64
	HasMinRetweets, HasMinReplies, HasMinLikes        bool
}

// Post is one entry of search_x. Fields that are absent are left out.
type Post struct {
	ID                string            `json:"id,omitempty"`
	URL               string            `json:"url,omitempty"`
	Text              string            `json:"text,omitempty"`
	User              *PostUser         `json:"user,omitempty"`
	CreatedAt         string            `json:"created_at,omitempty"`
	Lang              string            `json:"lang,omitempty"`
	LikeCount         *int64            `json:"like_count,omitempty"`
	RetweetCount      *int64            `json:"retweet_count,omitempty"`
	ReplyCount        *int64            `json:"reply_count,omitempty"`
	QuoteCount        *int64            `json:"quote_count,omitempty"`
	ViewCount         *int64            `json:"view_count,omitempty"`
	BookmarkCount     *int64            `json:"bookmark_count,omitempty"`
	ConversationID    string            `json:"conversation_id,omitempty"`
	InReplyToStatusID string            `json:"in_reply_to_status_id,omitempty"`
	QuotedStatusID    string            `json:"quoted_status_id,omitempty"`
	IsQuoteTweet      *bool             `json:"is_quote_tweet,omitempty"`
	Media             []json.RawMessage `json:"media,omitempty"`
	ExtendedEntities  json.RawMessage   `json:"extended_entities,omitempty"`
}

// PostUser is who wrote a post. The provider's name and profile_image_url_https
// have other names here.
type PostUser struct {
	ID              string `json:"id,omitempty"`
	Username        string `json:"username,omitempty"`
	DisplayName     string `json:"display_name,omitempty"`
	ProfileImageURL string `json:"profile_image_url,omitempty"`
	FollowersCount  *int64 `json:"followers_count,omitempty"`
	Verified        *bool  `json:"verified,omitempty"`
	IsBlueVerified  *bool  `json:"is_blue_verified,omitempty"`
	URL             string `json:"url,omitempty"`
}

// AIQuery is search_ai.
type AIQuery struct {
	Prompt, DateFilter, ResultType, SystemMessage string
	Tools                                         []string
	Count                                         int
}

// AIHit is one entry of search_ai.
type AIHit struct {
	URL    string  `json:"url,omitempty"`
	Note   *string `json:"note,omitempty"`
	Title  *string `json:"title,omitempty"`
	Source *string `json:"source,omitempty"`
}

// Items answers search_items: the feed that claims were made from.
type Items interface {
	Name() string
	Items(ctx context.Context, q ItemQuery) ([]Item, error)
}

// ItemQuery is search_items. Only items enqueued before EnqueueSeq are found.
type ItemQuery struct {
	FeedID     string
	EnqueueSeq int64
	Queries    []string
	Num        int
}

// Item is one entry of search_items.
type Item struct {
	JobID       string   `json:"job_id"`
	ContentID   string   `json:"content_id"`
	Provider    string   `json:"provider"`
	ExternalID  string   `json:"external_id"`
	URL         string   `json:"url,omitempty"`
	Text        string   `json:"text"`
	RequestedAt int64    `json:"requested_at_epoch_ms"`
	EnqueueSeq  int64    `json:"enqueue_seq"`
	Score       *float64 `json:"score,omitempty"`
}

const (
	defaultCount = 10
	maxCount     = 200
)

// Values that search_ai takes.
var (
	aiTools   = []string{"web", "hackernews", "reddit", "wikipedia", "youtube", "twitter", "arxiv"}
	aiDates   = []string{"PAST_24_HOURS", "PAST_2_DAYS", "PAST_WEEK", "PAST_2_WEEKS", "PAST_MONTH", "PAST_2_MONTHS", "PAST_YEAR", "PAST_2_YEARS"}
	aiResults = []string{"ONLY_LINKS", "LINKS_WITH_SUMMARIES", "LINKS_WITH_FINAL_SUMMARY"}
)

func (s *Session) planSearch(tool string, a *args) (*plan, error) {
	b := s.cfg.Search
	if b == nil {
		return nil, errNoBackend
	}
	p := &plan{policy: Referenceable, backend: b.Name(), probe: b.Probe}
	switch tool {
	case SearchWeb:
		q := WebQuery{Query: a.text("query"), Num: int(a.num("num", 0, 0, maxCount, false)), Start: int(a.num("start", 0, 0, 10_000, false))}
		p.worst = priceWeb
		p.run = func(ctx context.Context) (*reply, error) {
			hits, err := b.Web(ctx, q)
			if err != nil {
				return nil, err
			}
			hits = bound(hits, maxCount)
			out := &reply{response: map[string]any{"data": list(hits)}, cost: priceWeb}
			for _, h := range hits {
				out.cite(h.Link, h.Snippet, h.Title)
			}
			return out, nil
		}
	case SearchX:
		q := XQuery{
			Query: a.text("query"), Count: int(a.num("count", 0, 0, maxCount, false)), Lang: a.str("lang", false, 20), Sort: a.oneOf("sort", "", "Top", "Latest"),
			User: a.str("user", false, 100), StartDate: a.date("start_date"), EndDate: a.date("end_date"),
			Verified: a.boolean("verified"), BlueVerified: a.boolean("blue_verified"), IsQuote: a.boolean("is_quote"),
			IsVideo: a.boolean("is_video"), IsImage: a.boolean("is_image"),
		}
		q.MinRetweets, q.MinReplies, q.MinLikes = a.num("min_retweets", -1, 0, 1<<40, false), a.num("min_replies", -1, 0, 1<<40, false), a.num("min_likes", -1, 0, 1<<40, false)
		q.HasMinRetweets, q.HasMinReplies, q.HasMinLikes = q.MinRetweets >= 0, q.MinReplies >= 0, q.MinLikes >= 0
		p.worst = priceX
		p.run = func(ctx context.Context) (*reply, error) {
			posts, err := b.X(ctx, q)
			if err != nil {
				return nil, err
			}
			posts = bound(posts, maxCount)
			out := &reply{response: map[string]any{"data": list(posts)}, cost: priceX}
			for _, x := range posts {
				out.cite(x.URL, &x.Text, nil)
			}
			return out, nil
		}
	case SearchAI:
		q := AIQuery{
			Prompt: a.text("prompt"), Tools: a.list("tools"), Count: int(a.num("count", defaultCount, 1, maxCount, false)),
			DateFilter: a.oneOf("date_filter", "", aiDates...), ResultType: a.oneOf("result_type", "LINKS_WITH_FINAL_SUMMARY", aiResults...),
			SystemMessage: a.str("system_message", false, maxQuery),
		}
		for _, t := range q.Tools {
			if !slices.Contains(aiTools, t) {
				a.fail("tools", "want names of %s", strings.Join(aiTools, ", "))
			}
		}
		// Paid by result: no more are asked for than the session can carry.
		if can := int(s.left() / priceAI); a.err == nil && can < q.Count {
			if can == 0 {
				return nil, errBudget
			}
			q.Count = can
		}
		p.worst = agon.Micros(q.Count) * priceAI
		p.run = func(ctx context.Context) (*reply, error) {
			hits, err := b.AI(ctx, q)
			if err != nil {
				return nil, err
			}
			seen := map[string]bool{}
			paid := 0
			hits = slices.DeleteFunc(hits, func(h AIHit) bool {
				if h.URL == "" {
					return false
				}
				if seen[h.URL] || paid == q.Count {
					return true
				}
				seen[h.URL] = true
				paid++
				return false
			})
			hits = bound(hits, maxCount)
			out := &reply{response: map[string]any{"data": list(hits)}}
			for _, h := range hits {
				out.cite(h.URL, h.Note, h.Title)
			}
			out.cost = agon.Micros(len(out.results)) * priceAI
			return out, nil
		}
	default:
		return nil, errInvalid
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	return p, nil
}

func (s *Session) planItems(a *args) (*plan, error) {
	b := s.cfg.Items
	if b == nil {
		return nil, errNoBackend
	}
	q := ItemQuery{
		FeedID: a.str("feed_id", true, 100), EnqueueSeq: a.num("enqueue_seq", 0, 0, 1<<53, true),
		Queries: a.list("search_queries"), Num: int(a.num("num_hit", 20, 1, maxCount, false)),
	}
	if err := a.done(); err != nil {
		return nil, err
	}
	return &plan{policy: LogOnly, backend: b.Name(), worst: priceItems, run: func(ctx context.Context) (*reply, error) {
		hits, err := b.Items(ctx, q)
		if err != nil {
			return nil, err
		}
		return &reply{response: map[string]any{"hits": list(bound(hits, q.Num))}, cost: priceItems}, nil
	}}, nil
}

// cite adds a referenceable result. Entries without a url are skipped, an empty note is none.
func (r *reply) cite(url string, note, title *string) {
	if url == "" {
		return
	}
	if note != nil && strings.TrimSpace(*note) == "" {
		note = nil
	}
	if title != nil && *title == "" {
		title = nil
	}
	r.results = append(r.results, Result{URL: &url, Note: note, Title: title})
}

func bound[T any](s []T, n int) []T {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// list keeps an empty list from being encoded as null.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
