import io.anserini.analysis.DefaultEnglishAnalyzer;
import io.anserini.index.IndexCollection;
import io.anserini.search.SimpleSearcher;
import io.anserini.search.query.BagOfWordsQueryGenerator;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.lucene.analysis.Analyzer;
import org.apache.lucene.analysis.TokenStream;
import org.apache.lucene.analysis.tokenattributes.CharTermAttribute;
import org.apache.lucene.index.DirectoryReader;
import org.apache.lucene.search.IndexSearcher;
import org.apache.lucene.search.ScoreDoc;
import org.apache.lucene.search.similarities.BM25Similarity;
import org.apache.lucene.store.FSDirectory;

// Lucene.java DOCS INDEX QUERIES HITS indexes the JSON documents below DOCS with
// the flags that ShoppingBench gives Pyserini, asks each line of QUERIES, and
// writes "query number, tab, id, tab, bits of the score" a hit to HITS, best first.
// Order is Pyserini's searcher's; it makes tied scores differ by a little, so the
// scores are Lucene's own for the same query.
//
// Lucene.java terms TEXTS TERMS writes the terms of each line of TEXTS, code
// points in hex, as code points with ";" after a term.
public class Lucene {
  static void terms(Path in, Path out) throws Exception {
    StringBuilder b = new StringBuilder();
    try (Analyzer analyzer = DefaultEnglishAnalyzer.newDefaultInstance()) {
      for (String line : Files.readAllLines(in, StandardCharsets.UTF_8)) {
        StringBuilder text = new StringBuilder();
        for (String hex : line.split(" ")) {
          text.appendCodePoint(Integer.parseInt(hex, 16));
        }
        try (TokenStream stream = analyzer.tokenStream("contents", text.toString())) {
          CharTermAttribute term = stream.addAttribute(CharTermAttribute.class);
          stream.reset();
          while (stream.incrementToken()) {
            term.toString().codePoints().forEach(c -> b.append(Integer.toHexString(c)).append(' '));
            b.append(';');
          }
          stream.end();
        }
        b.append('\n');
      }
    }
    Files.writeString(out, b);
  }

  public static void main(String[] a) throws Exception {
    if (a[0].equals("terms")) {
      terms(Path.of(a[1]), Path.of(a[2]));
      return;
    }
    IndexCollection.main(new String[] {
      "-collection", "JsonCollection", "-input", a[0], "-index", a[1], "-generator", "DefaultLuceneDocumentGenerator",
      "-threads", "1", "-storePositions", "-storeDocvectors", "-storeRaw"
    });
    StringBuilder out = new StringBuilder();
    List<String> queries = Files.readAllLines(Path.of(a[2]), StandardCharsets.UTF_8);
    try (SimpleSearcher searcher = new SimpleSearcher(a[1]); DirectoryReader reader = DirectoryReader.open(FSDirectory.open(Path.of(a[1])))) {
      IndexSearcher plain = new IndexSearcher(reader);
      plain.setSimilarity(new BM25Similarity(0.9f, 0.4f));
      for (int i = 0; i < queries.size(); i++) {
        Map<Integer, Float> scores = new HashMap<>();
        for (ScoreDoc d : plain.search(new BagOfWordsQueryGenerator().buildQuery("contents", searcher.get_analyzer(), queries.get(i)), reader.maxDoc()).scoreDocs) {
          scores.put(d.doc, d.score);
        }
        for (SimpleSearcher.Result r : searcher.search(queries.get(i), 10000)) {
          out.append(i).append('\t').append(r.docid).append('\t').append(Float.floatToIntBits(scores.get(r.lucene_docid))).append('\n');
        }
      }
    }
    Files.writeString(Path.of(a[3]), out);
  }
}
