import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.InternalArray;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.options.Options;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeRoot;

/** Reads and compacts tables with Paimon's own library: one command a line on stdin, answers as lines of JSON. */
public class Judge {
    public static void main(String[] arguments) throws Exception {
        Options options = new Options();
        for (String argument : arguments) {
            String[] pair = argument.split("=", 2);
            options.set(pair[0], pair[1]);
        }
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(System.out, true, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split("\t");
            try (Catalog catalog = CatalogFactory.createCatalog(CatalogContext.create(options))) {
                Table table = catalog.getTable(Identifier.create(words[1], words[2]));
                if (words[0].equals("read")) {
                    read(table, out);
                } else {
                    compact(table);
                }
                out.println("done");
            } catch (Throwable error) {
                out.println("error " + text(error.toString() + " " + error.getCause()));
            }
        }
    }

    static void read(Table table, java.io.PrintStream out) throws Exception {
        ReadBuilder builder = table.newReadBuilder();
        List<Split> splits = builder.newScan().plan().splits();
        List<DataType> types = table.rowType().getFieldTypes();
        List<String> names = table.rowType().getFieldNames();
        try (RecordReader<InternalRow> reader =
                builder.newRead().withIOManager(IOManager.create("/tmp")).createReader(splits)) {
            reader.forEachRemaining(row -> out.println(line(row, names, types)));
        }
    }

    static void compact(Table table) throws Exception {
        Table whole = table.copy(Map.of("write-only", "false"));
        BatchWriteBuilder builder = whole.newBatchWriteBuilder();
        Set<Object> seen = new HashSet<>();
        try (BatchTableWrite write = builder.newWrite();
                org.apache.paimon.table.sink.BatchTableCommit commit = builder.newCommit()) {
            write.withIOManager(IOManager.create("/tmp"));
            for (Split split : whole.newReadBuilder().newScan().plan().splits()) {
                DataSplit one = (DataSplit) split;
                if (seen.add(List.of(one.partition(), one.bucket()))) {
                    write.compact(one.partition(), one.bucket(), true);
                }
            }
            commit.commit(write.prepareCommit());
        }
    }

    static String line(InternalRow row, List<String> names, List<DataType> types) {
        List<String> cells = new ArrayList<>();
        for (int i = 0; i < names.size(); i++) {
            Object value = InternalRow.createFieldGetter(types.get(i), i).getFieldOrNull(row);
            cells.add(text(names.get(i)) + ": " + (value == null ? "null" : text(value(value, types.get(i)))));
        }
        return "{" + String.join(", ", cells) + "}";
    }

    static String value(Object value, DataType type) {
        if (value instanceof byte[]) {
            StringBuilder hex = new StringBuilder();
            for (byte one : (byte[]) value) {
                hex.append(String.format("%02x", one));
            }
            return hex.toString();
        }
        if (value instanceof InternalArray) {
            return java.util.Arrays.toString(((InternalArray) value).toFloatArray());
        }
        if (type.getTypeRoot() == DataTypeRoot.DATE) {
            return java.time.LocalDate.ofEpochDay((Integer) value).toString();
        }
        return value.toString();
    }

    static String text(String value) {
        StringBuilder out = new StringBuilder("\"");
        for (char one : value.toCharArray()) {
            if (one == '"' || one == '\\') {
                out.append('\\').append(one);
            } else if (one < 32 || one > 126) {
                out.append(String.format("\\u%04x", (int) one));
            } else {
                out.append(one);
            }
        }
        return out.append('"').toString();
    }
}
