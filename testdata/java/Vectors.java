import java.util.*;
import java.util.regex.*;
import java.io.*;
import java.math.*;
public class Vectors {
  static String q(String s){ if(s==null) return "null"; StringBuilder b=new StringBuilder("\""); for(char c: s.toCharArray()){ if(c=='"'||c=='\\') b.append('\\').append(c); else if(c<0x20||c>0x7e) b.append(String.format("\\u%04x",(int)c)); else b.append(c);} return b.append('"').toString(); }
  public static void main(String[] a) throws Exception {
    String[][] p={
     {"(?<routedByValue>.*)","outbox.event.${routedByValue}"},{"(.*)","$1"},{"(.*?)","x$1"},{".*","t"},{"a|ab","X"},{"(a|ab)(c|bcd)?","$1-$2"},
     {"([a-z]+)-(?<rest>\\w+)","t.$1.${rest}"},{"(\\d{2,3})(\\d*)","$2_$1"},{"[A-Z][a-z]*","up"},{"[^-]+-[^-]+","two"},{"(?i)order","o"},{"(?i:or)der","o"},{"\\w+\\.\\w+","dot"},
     {"^(.+)$","[$1]"},{"\\A(\\w*)\\z","$1"},{"(\\w*)\\Z","$1"},{"\\Qa.b\\E.*","quoted"},{"(.)(.)(.)(.)(.)(.)(.)(.)(.)(.)(.*)","$10$11$12$1"},
     {"\\p{Upper}\\p{Lower}+","pu"},{"[\\p{Alpha}_]+","alpha"},{"\\P{Digit}+","nod"},{"a{2}","two"},{"a{1,}","some"},{"a+?","lazy"},{"(a+?)(a*)","$1:$2"},
     {"(x)?(.*)","<$1|$2>"},{".*","\\$1"},{".*","a\\\\b"},{"(a)|(b)","$1$2"},{"[a-c\\-x]+","cls"},{"[.]","p"},{"\\x41.*","hex"},{"\\u0041.*","uni"},{"(?s).*","s"},{"(?m)^.*$","m"},
     {"\\bOrder\\b","b"},{"Ord\\Ber","B"},{"[\\w.]+","w"},{"(?<a>.)(?<b>.*)","${b}${a}"},{"","e"},{"()","$1"},{"(a)(b)?","$1$2"},{"((a)|b)+","$1$2"},{"(?:a|b)*c","n"},{"\\s*\\S+","ws"},{"[ -~]*","print"},{"a.c","$0"},{"[]a]+","br"},{"a{,3}","x"},{"a**","x"},{"x*+","x"},{"(?=a).*","x"},{"(?<!a).*","x"},{"(.)\\1","x"},{"(?<n>.)\\k<n>","x"},{"[a-z&&[^b]]+","x"},{"[a[b]]","x"},{"(?>a+)b","x"},{"\\h+","x"},{"\\R","x"},{"(?x) a b","x"},{"(?U)\\w+","x"},{"(a*)*","$1"},{"(a?)+b","$1"},{".*","$"},{".*","$2"},{".*","${x}"},{".*","\\"},{"(","x"},{"[[a-z]","x"},{"\\p{IsLatin}+","x"},{"\\p{L}+","x"},{"a{2}{3}","x"},{"{","x"},{"}","x"},{"]","x"},{"a-]","x"},{"[a-]+","x"},{"[-a]+","x"},{"[a^]+","x"},{"[+--]","x"},{"\\cA","x"},{"\\01","x"},{"\\_","x"},{"\\-","x"},{"[\\]]","x"},{"[\\[]","x"},{"[(]","x"},{"(?<a1>.)","${a1}"},{"(?<1a>.)","x"},{"(?P<a>.)","x"},{"(?i-s:a)","x"},{"a|","x"},{"|a","x"},{"(|a)b","$1x"},{"\\d+|\\w+","x"},{"(\\w+?)s?","$1"},{"(.+)\\.(.+)","$2.$1"},{"(.+?)\\.(.+)","$2.$1"}
    };
    String[] in={"","Order","order","ORDER","a","b","ab","abc","abcd","aa","aaa","aaaa","a-B","x-y-z","a.b","a.b.c","abcdefghijk","abcdefghijkl","1234","12","_x","Or-der","a b"," x","c","xy","-","A1","a]","]","}","{","+","_","[","(","abbc","orders"};
    PrintStream out=new PrintStream(new FileOutputStream(a[0]+"/regex.jsonl"),false,"UTF-8");
    for(String[] e: p){ 
      StringBuilder b=new StringBuilder("{\"pattern\":"+q(e[0])+",\"replacement\":"+q(e[1])+",");
      Pattern re; try { re=Pattern.compile(e[0]); } catch(PatternSyntaxException x){ out.println(b+"\"illegal\":true}"); continue; }
      b.append("\"topics\":{"); boolean first=true; boolean bad=false;
      for(String s: in){ Matcher m=re.matcher(s); String r=null; if(m.matches()){ try{ r=m.replaceFirst(e[1]); } catch(RuntimeException x){ bad=true; break; } } if(r==null) continue; if(!first) b.append(","); first=false; b.append(q(s)+":"+q(r)); }
      if(bad) out.println("{\"pattern\":"+q(e[0])+",\"replacement\":"+q(e[1])+",\"illegal\":true}"); else out.println(b+"}}");
    }
    out.println("{\"inputs\":"+Arrays.stream(in).map(Vectors::q).collect(java.util.stream.Collectors.joining(",","[","]"))+"}");
    out.close();
    out=new PrintStream(new FileOutputStream(a[0]+"/decimal.jsonl"),false,"UTF-8");
    for(String s: new String[]{"0","0.00","-0.0","1","12.50","-12.50","0.001","0.000001","0.0000001","-0.0000001","0.0000000","123456789012345678901234567890.123456789","100","1200","-1","127","128","-128","-129","255","256","32767","32768","-32768","-32769","0.10","99999999999999999999","-99999999999999999999","0.00000000000000000001234"}){
      BigDecimal d=new BigDecimal(s); BigDecimal st=d.stripTrailingZeros(); if(st.scale()<0) st=st.setScale(0);
      out.println("{\"text\":"+q(s)+",\"string\":"+q(d.toString())+",\"plain\":"+q(d.toPlainString())+",\"unscaled\":"+q(Base64.getEncoder().encodeToString(d.unscaledValue().toByteArray()))+",\"stripped\":"+q(st.toPlainString())+",\"scale\":"+st.scale()+",\"double\":"+q(Double.toString(d.doubleValue()))+"}");
    } out.close();
    out=new PrintStream(new FileOutputStream(a[0]+"/properties.jsonl"),false,"UTF-8");
    for(String s: new String[]{"","a=b","a = b ","a:b","a b","a\tb","  a=b","#c\na=b","!c\ra=b\r\nc=d","a\\=b=c","a\\:b\\ c=d","a=b\\\n   c","a=b\\\\\nc=d","a=\\u0041\\u00e9","a=\\t\\n\\r\\f\\x","a","a=","=b",":b","a==b","a:=b","a =: b","a=1\na=2","traceparent=00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n","a=b\\","a\\\n  b=c","# x \\\na=b","a=\\ud83d\\ude00","\n\n a=b\n\n","a=b c  ","a\\tb=c"," \\  a=b","\f a=b","k\\\\=v","a=x\\\r\n  y"}){
      Properties pr=new Properties(); pr.load(new StringReader(s)); TreeMap<String,String> t=new TreeMap<>(); for(String k: pr.stringPropertyNames()) t.put(k,pr.getProperty(k));
      StringBuilder b=new StringBuilder("{\"text\":"+q(s)+",\"properties\":{"); boolean f=true; for(var e: t.entrySet()){ if(!f)b.append(","); f=false; b.append(q(e.getKey())+":"+q(e.getValue())); } out.println(b+"}}");
    } out.close();
    out=new PrintStream(new FileOutputStream(a[0]+"/hashmap.jsonl"),false,"UTF-8");
    Random r=new Random(7); for(int n: new int[]{0,1,2,5,12,13,24,25,60}){ StringBuilder ins=new StringBuilder("["); HashMap<String,String> m=new HashMap<>(); List<String> keys=new ArrayList<>(); for(int i=0;i<n;i++){ StringBuilder k=new StringBuilder(); int len=1+r.nextInt(8); for(int j=0;j<len;j++) k.append("abcXYZ019 _\u00e9\u65e5".charAt(r.nextInt(13))); if(r.nextInt(5)==0) k.append("\ud83d\ude00"); if(!keys.contains(k.toString())){ keys.add(k.toString()); m.put(k.toString(),""); } }
      out.println("{\"keys\":"+keys.stream().map(Vectors::q).collect(java.util.stream.Collectors.joining(",","[","]"))+",\"order\":"+m.keySet().stream().map(Vectors::q).collect(java.util.stream.Collectors.joining(",","[","]"))+"}"); } out.close();
    out=new PrintStream(new FileOutputStream(a[0]+"/floating.jsonl"),false,"UTF-8");
    List<Double> ds=new ArrayList<>(List.of(0.0,-0.0,1.0,1.5,-1.5,0.001,0.0009999,1e7,9999999.0,9999999.999,12345678.9,1e21,2e23,1e23,4.9e-324,1.7976931348623157e308,2.2250738585072014e-308,0.1,0.3,1.0/3,100.0,123456.0,1e-5,5e-324,9e-324,2e-323,1.1e-3,8.41E21,2.0E-3,9.5367431640625E-7));
    for(int i=0;i<150;i++) ds.add(Double.longBitsToDouble(r.nextLong())); for(int i=0;i<50;i++) ds.add(r.nextInt(2000000)/1000.0);
    for(double d: ds) if(!Double.isNaN(d)) out.println("{\"bits\":"+q(Long.toHexString(Double.doubleToLongBits(d)))+",\"text\":"+q(Double.toString(d))+"}");
    List<Float> fs=new ArrayList<>(List.of(0f,-0f,1f,1.1f,1.4e-45f,1.17549435E-38f,3.4028235e38f,0.001f,1e7f,9999999f,3.3554432E7f,2e-44f,16777216f,1e10f,8.5899346E9f,0.33333334f));
    for(int i=0;i<150;i++) fs.add(Float.intBitsToFloat(r.nextInt()));
    for(float f: fs) if(!Float.isNaN(f)) out.println("{\"bits\":"+q(Integer.toHexString(Float.floatToIntBits(f)))+",\"single\":true,\"text\":"+q(Float.toString(f))+"}");
    out.close();
  }
}
